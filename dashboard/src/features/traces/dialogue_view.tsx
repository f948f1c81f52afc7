// A trace as what was said: the messages of its model calls, each once, with the step that sent it.
import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, type Schemas } from "../../api/client";
import { counted, line, number } from "../../lib/format";
import { Loading, Problem } from "../../ui/basics";
import { dialogue } from "./dialogue";
import { recordedIn } from "./messages";
import { Shown } from "./span_content";

const CALLS = new Set(["chat", "text_completion", "generate_content"]);
const MOST = 60;

export function DialogueView({ trace, spans }: { trace: string; spans: Schemas["SpanSkeleton"][] }) {
  const calls = useMemo(() => spans.filter((span) => CALLS.has(span.operation)).sort((one, other) => one.start_ns - other.start_ns), [spans]);
  const read = useQueries({
    queries: calls.slice(0, MOST).map((span) => ({
      queryKey: ["span", trace, span.span_id],
      queryFn: () => api.GET("/v1/traces/{id}/spans/{span_id}", { params: { path: { id: trace, span_id: span.span_id } } }),
      refetchInterval: false as const,
      staleTime: 30_000,
    })),
  });
  if (calls.length === 0) return <p className="empty">No step of this trace is a model call, so nothing was said.</p>;
  const failed = read.find((query) => query.error);
  if (failed) return <Problem error={failed.error} />;
  if (read.some((query) => query.isPending)) return <Loading />;
  const said = dialogue(read.map((query, at) => ({ span: calls[at]!.span_id, recorded: recordedIn((query.data?.attributes ?? {}) as Record<string, unknown>) })));
  const names = new Map(calls.map((span) => [span.span_id, span.name]));
  return (
    <>
      {calls.length > MOST && <p className="note">Of {counted(calls.length, "model call")} the first {number(MOST)} are read.</p>}
      {said.length === 0 && <p className="empty">The model calls of this trace recorded no messages.</p>}
      {said.map(({ span, message }, at) => (
        <div key={at}>
          <Shown message={message} />
          <div className="small muted">
            <Link to="/traces/$id" params={{ id: trace }} search={{ span }}>
              {line(names.get(span) ?? "", 80)}
            </Link>
          </div>
        </div>
      ))}
    </>
  );
}
