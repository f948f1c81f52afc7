// The labels that people have given: what an evaluator's agreement is measured against.
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { address, api } from "../../api/client";
import { counted, line, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, State, Time, waiting } from "../../ui/basics";
import { Rows } from "../../ui/rows";

export function LabelsPage() {
  const { criterion } = useSearch({ from: "/labels" });
  const found = useQuery({ queryKey: ["labels", "of", criterion], queryFn: () => api.GET("/v1/labels", { params: { query: { criterion } } }) });
  const labels = [...(found.data?.labels ?? [])].reverse();
  return (
    <Page title="Labels" actions={<Command text={`curl ${address()}/v1/labels`} />}>
      {waiting(found)}
      {found.data && labels.length === 0 && <Empty command="ratchet label">People’s labels say which outputs are right. None has been given yet:</Empty>}
      {labels.length > 0 && (
        <>
          <p className="muted">{counted(labels.length, "label")}, newest first</p>
          <Rows>
            <table aria-label="Labels">
              <thead>
                <tr>
                  <th>given</th>
                  <th>of</th>
                  <th>says</th>
                  <th>by</th>
                  <th>drawn</th>
                  <th>about</th>
                  <th>comment</th>
                </tr>
              </thead>
              <tbody>
                {labels.map((label) => (
                  <tr key={label.id}>
                    <td>
                      <Time at={label.created_at} />
                    </td>
                    <td>
                      {label.rollout_id ? <Link to={pathOf("rollout", label.rollout_id)}>rollout {short(label.rollout_id)}</Link> : <Link to={pathOf("trace", label.trace_id)}>trace {short(label.trace_id)}</Link>}
                    </td>
                    <td>
                      <State of={label.value >= 0.5 ? "right" : "wrong"} tone={label.value >= 0.5 ? "good" : "bad"} />
                    </td>
                    <td>{line(label.labeller, 60)}</td>
                    <td>{label.drawn}</td>
                    <td className="wrap">{line(label.criterion, 80) || "the output as a whole"}</td>
                    <td className="wrap">{line(label.comment, 160)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Rows>
        </>
      )}
    </Page>
  );
}
