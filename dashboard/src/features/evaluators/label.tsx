// A person's verdict on one output, of a rollout or of a live trace; each can be taken back.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { line } from "../../lib/format";
import { newId } from "../../lib/id";
import { Problem } from "../../ui/basics";
import { useAllowed } from "../../ui/session";

export type Labelled = { rollout_id: string } | { trace_id: string };

export function Label({ of }: { of: Labelled }) {
  const queries = useQueryClient();
  const allowed = useAllowed("develop");
  const [error, setError] = useState<unknown>(null);
  const labels = useQuery({ queryKey: ["labels", of], queryFn: () => api.GET("/v1/labels", { params: { query: of } }) });
  const change = async (work: () => Promise<unknown>) => {
    setError(null);
    try {
      await work();
    } catch (failure) {
      setError(failure);
    }
    await queries.invalidateQueries({ queryKey: ["labels"] });
  };
  const give = (value: number) => change(() => api.POST("/v1/labels", { body: { labels: [{ id: newId(), ...of, value, drawn: "chosen" }] } }));
  const remove = (id: string) => change(() => api.DELETE("/v1/labels/{id}", { params: { path: { id } } }));
  const missing = allowed ? undefined : "Needs a key with the scope run";
  return (
    <div className="row" style={{ margin: "8px 0" }} aria-label="Labels" role="group">
      <span className="muted">Is the output right?</span>
      <button type="button" disabled={!allowed} title={missing} onClick={() => void give(1)}>
        Right
      </button>
      <button type="button" disabled={!allowed} title={missing} onClick={() => void give(0)}>
        Wrong
      </button>
      {labels.data?.labels.map((label) => (
        <span key={label.id} className="badge">
          {label.value >= 0.5 ? "✓ right" : "✕ wrong"}
          {label.labeller && ` (${line(label.labeller, 30)})`}
          <button type="button" className="plain small" disabled={!allowed} onClick={() => void remove(label.id)}>
            undo
          </button>
        </span>
      ))}
      {error != null && <Problem error={error} />}
    </div>
  );
}
