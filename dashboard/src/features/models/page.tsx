// Models: those that agents call and when they end, and weights trained here.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { line } from "../../lib/format";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { TrainingRuns } from "../training/list";

export function ModelsPage() {
  const found = useQuery({ queryKey: ["models"], refetchInterval: 60_000, queryFn: () => api.GET("/v1/models") });
  const models = found.data?.models ?? [];
  return (
    <Page title="Models" actions={<Command text="ratchet migrate --help" />}>
      <p className="muted">Models that agents called in the last 30 days. A provider's announced end comes first, with the command that moves the agent and proves that it lost nothing.</p>
      {waiting(found)}
      {found.data && models.length === 0 && <Empty command="ratchet init">No call of a model has been recorded yet. Wire the agent, and its models appear here:</Empty>}
      {models.length > 0 && (
        <div className="scroll" tabIndex={0}>
          <table aria-label="Models">
            <thead>
              <tr>
                <th>model</th>
                <th>provider</th>
                <th>called by</th>
                <th>last call</th>
                <th>end</th>
              </tr>
            </thead>
            <tbody>
              {models.map((model) => (
                <tr key={`${model.model}/${model.provider}/${model.agent}`}>
                  <td className="wrap">
                    <b>{line(model.model, 80)}</b>
                  </td>
                  <td>{line(model.provider, 40)}</td>
                  <td className="wrap">{model.agent ? <Link to="/traces" search={{ agent: model.agent }}>{line(model.agent, 60)}</Link> : "rollouts"}</td>
                  <td>
                    <Time at={model.last_at} />
                  </td>
                  <td className="wrap long">
                    <End of={model} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <h2>Weights trained here</h2>
      <TrainingRuns />
    </Page>
  );
}

function End({ of }: { of: Schemas["ModelView"] }) {
  if (!of.ending) return <span className="muted">none announced</span>;
  return (
    <div className="stack" style={{ gap: 4, alignItems: "flex-start" }}>
      <span title={`Source: ${of.source}.`}>
        <State of={of.past ? "ended" : "ends"} tone={of.past ? "bad" : "warn"} /> {of.ending}
      </span>
      <Command text={of.command} />
    </div>
  );
}
