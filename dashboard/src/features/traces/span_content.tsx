// What the selected span holds: messages, a tool's call, error, tokens, and all attributes.
import { useQuery } from "@tanstack/react-query";
import { api, type Schemas } from "../../api/client";
import { dollars, duration, line, moment, number, text, words } from "../../lib/format";
import { Facts, waiting } from "../../ui/basics";
import { LongText } from "../../ui/long_text";
import { type Message, recordedIn, SHOWN } from "./messages";

export function SpanContent({ trace, skeleton }: { trace: string; skeleton: Schemas["SpanSkeleton"] }) {
  const span = useQuery({
    queryKey: ["span", trace, skeleton.span_id],
    queryFn: () => api.GET("/v1/traces/{id}/spans/{span_id}", { params: { path: { id: trace, span_id: skeleton.span_id } } }),
    refetchInterval: false,
    staleTime: 30_000,
  });
  const attributes = (span.data?.attributes ?? {}) as Record<string, unknown>;
  const recorded = recordedIn(attributes);
  const rest = Object.entries(attributes).filter(([name]) => !SHOWN.has(name));
  return (
    <article>
      <h2 style={{ marginTop: 0 }} className="wrap">
        {line(skeleton.name, 300)}
      </h2>
      <Facts
        of={[
          ["operation", words(skeleton.operation)],
          ["model", skeleton.model],
          ["took", duration((skeleton.end_ns - skeleton.start_ns) / 1e9)],
          ["began", moment(skeleton.start_ns / 1e9)],
          ["tokens", skeleton.input_tokens || skeleton.output_tokens ? `${number(skeleton.input_tokens)} → ${number(skeleton.output_tokens)}` : ""],
          ["cost", skeleton.unmeasured ? `not measured: ${skeleton.unmeasured}` : skeleton.model && dollars(skeleton.cost_usd)],
          ["status", skeleton.status === "error" ? <span key="error" className="bad">✕ failed</span> : ""],
        ]}
      />
      {skeleton.message && (
        <div className="note bad">
          <LongText text={skeleton.message} mono />
        </div>
      )}
      {waiting(span)}
      {recorded.system && <Shown message={{ role: "system", parts: [{ kind: "text", text: recorded.system }] }} />}
      {[...recorded.input, ...recorded.output].map((message, at) => (
        <Shown key={at} message={message} />
      ))}
      {recorded.arguments !== undefined && <Block title="Arguments" content={recorded.arguments} />}
      {recorded.result !== undefined && <Block title="Result" content={recorded.result} />}
      {(span.data?.events ?? []).map((event, at) => (
        <Block key={at} title={`Event ${line(event.name, 80)}`} content={text(event.attributes)} />
      ))}
      {rest.length > 0 && (
        <details open={recorded.input.length + recorded.output.length === 0 && recorded.arguments === undefined}>
          <summary>{number(rest.length)} attributes</summary>
          <Facts of={rest.map(([name, value]) => [name, <LongText key={name} text={text(value)} mono />])} />
        </details>
      )}
    </article>
  );
}

export function Shown({ message, kind = message.role }: { message: Message; kind?: string }) {
  return (
    <section className={`message ${kind}`}>
      <header>
        <b>{line(message.role, 80)}</b>
      </header>
      <div className="stack">
        {message.parts.map((part, at) => (
          <div key={at}>
            {part.kind !== "text" && (
              <div className="muted small">{part.kind === "call" ? `calls ${line(part.name ?? "", 80)}` : part.kind === "result" ? "result" : line(part.name ?? "", 40)}</div>
            )}
            <LongText text={part.text} mono={part.kind !== "text"} />
          </div>
        ))}
      </div>
    </section>
  );
}

function Block({ title, content }: { title: string; content: string }) {
  return (
    <section className="message">
      <header>
        <b>{title}</b>
      </header>
      <div>
        <LongText text={content} mono />
      </div>
    </section>
  );
}
