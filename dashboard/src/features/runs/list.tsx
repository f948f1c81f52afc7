import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api } from "../../api/client";
import { line, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

export function RunsPage() {
  const list = useQuery({ queryKey: ["runs"], refetchInterval: 5_000, queryFn: () => api.GET("/v1/runs", { params: { query: { limit: 200 } } }) });
  const runs = list.data?.runs ?? [];
  return (
    <Page title="Runs" actions={
        <>
          <Link to="/rollouts" className="button">
            All rollouts
          </Link>
          <Command text="ratchet status" />
        </>
      }>
      {waiting(list)}
      {list.data && runs.length === 0 && <Empty command="ratchet improve">A run measures the baseline, learns candidates, and proves the best one. None has begun yet.</Empty>}
      {runs.length > 0 && (
        <Rows>
          <table aria-label="Runs">
            <thead>
              <tr>
                <th>began</th>
                <th>run</th>
                <th>stage</th>
                <th>how it ended</th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => (
                <tr key={run.id}>
                  <td>
                    <Time at={run.created_at} />
                  </td>
                  <td>
                    <Link to={pathOf("run", run.id)}>
                      {line(run.agent, 60)}, {short(run.id)}
                    </Link>
                  </td>
                  <td>
                    <State of={run.stage} />
                  </td>
                  <td className="wrap long">{line(run.message, 160)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
    </Page>
  );
}
