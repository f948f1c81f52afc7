// What a candidate changed: each resource with its texts before and after.
import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client";
import { line, short } from "../../lib/format";
import { Command, waiting } from "../../ui/basics";
import { TextDiff } from "../../ui/diff";

export function Changes({ candidate, since }: { candidate: string; since?: string }) {
  const changes = useQuery({
    queryKey: ["changes", candidate, since],
    refetchInterval: false,
    staleTime: Infinity,
    queryFn: () => api.GET("/v1/candidates/{id}/changes", { params: { path: { id: candidate }, query: { since } } }),
  });
  return (
    <>
      {waiting(changes)}
      {changes.data?.changes.length === 0 && <p className="muted">Both have the same resources.</p>}
      {changes.data?.changes.map((change) => (
        <section key={change.name}>
          <h3>
            {line(change.name)} <span className="badge">{change.kind}</span>
          </h3>
          <TextDiff before={change.before ?? ""} after={change.after ?? ""} by={change.kind === "prompt" ? "words" : "lines"} />
        </section>
      ))}
      {changes.data && <Command text={`ratchet diff ${since ? short(since) : "source"} ${short(candidate)}`} />}
    </>
  );
}
