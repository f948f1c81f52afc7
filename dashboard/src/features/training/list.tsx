import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api } from "../../api/client";
import { number } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { titled } from "./names";
import { Command, Empty, Page, Time, waiting } from "../../ui/basics";

export function TrainingPage() {
  return (
    <Page title="Weights" above={<Link to="/models">Models</Link>} actions={<Command text="ratchet train runs" />}>
      <TrainingRuns />
    </Page>
  );
}

export function TrainingRuns() {
  const list = useQuery({ queryKey: ["training"], queryFn: () => api.GET("/v1/training-runs") });
  const runs = list.data?.runs ?? [];
  return (
    <>
      {waiting(list)}
      {list.data && runs.length === 0 && <Empty command="ratchet train doctor">No model’s weights have been trained in this server’s project. Look first whether everything fits:</Empty>}
      {runs.length > 0 && (
        <div className="scroll" tabIndex={0}>
          <table aria-label="Training runs">
            <thead>
              <tr>
                <th>training</th>
                <th>last step</th>
                <th className="num">steps</th>
                <th className="num">reward</th>
                <th className="num">loss</th>
                <th className="num">val</th>
              </tr>
            </thead>
            <tbody>
              {runs.map((run) => (
                <tr key={run.name}>
                  <td className="wrap">
                    <Link to={pathOf("training", run.name)}>{titled(run.name)}</Link>
                  </td>
                  <td>
                    <Time at={run.updated_at} />
                  </td>
                  <td className="num">{number(run.steps)}</td>
                  {["reward", "loss", "val"].map((metric) => (
                    <td key={metric} className="num">
                      {number(run.last[metric])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
