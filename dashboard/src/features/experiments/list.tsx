import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api } from "../../api/client";
import { line, number, score, short, signed } from "../../lib/format";
import { ends } from "../../lib/interval";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

export function ExperimentsPage() {
  const list = useQuery({ queryKey: ["experiments"], queryFn: () => api.GET("/v1/experiments", { params: { query: { limit: 200 } } }) });
  const runs = useQuery({ queryKey: ["runs"], queryFn: () => api.GET("/v1/runs", { params: { query: { limit: 200 } } }) });
  const experiments = list.data?.experiments ?? [];
  return (
    <Page title="Experiments" actions={experiments[0] && <Command text={`ratchet explain ${short(experiments[0].id)}`} />}>
      {waiting(list)}
      {list.data && experiments.length === 0 && (
        <Empty command="ratchet improve">An experiment compares a candidate with the baseline on tasks that learning never saw. None has begun yet.</Empty>
      )}
      {experiments.length > 0 && (
        <Rows>
          <table aria-label="Experiments">
            <thead>
              <tr>
                <th>began</th>
                <th>experiment</th>
                <th>agent</th>
                <th>verdict</th>
                <th className="num">baseline</th>
                <th className="num">candidate</th>
                <th className="num">gain and interval</th>
                <th className="num">e-value</th>
                <th className="num">pairs</th>
              </tr>
            </thead>
            <tbody>
              {experiments.map(({ id, created_at, decision, alpha, candidate_id, run_id }) => (
                <tr key={id}>
                  <td>
                    <Time at={created_at} />
                  </td>
                  <td>
                    <Link to={pathOf("experiment", id)}>
                      {decision ? line(decision.metric, 40) : "under way"}, candidate {short(candidate_id)}
                    </Link>
                  </td>
                  <td className="wrap">{line(runs.data?.runs.find((run) => run.id === run_id)?.agent ?? "", 60)}</td>
                  <td>{decision ? <State of={decision.verdict} /> : <State of="running" />}</td>
                  <td className="num">{score(decision?.baseline)}</td>
                  <td className="num">{score(decision?.candidate)}</td>
                  <td className="num">
                    {decision && `${signed(decision.candidate - decision.baseline)} ${ends(decision.interval)}`}
                  </td>
                  <td className="num" title={`threshold ${number(1 / alpha)}`}>
                    {number(decision?.e_value)}
                  </td>
                  <td className="num">{number(decision?.pairs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
    </Page>
  );
}
