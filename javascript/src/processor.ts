/** Takes the spans of a provider: tags them with their conversation, and sends them. */

import { TraceFlags, type Attributes, type Context } from "@opentelemetry/api";
import type { ReadableSpan, Span, SpanProcessor } from "@opentelemetry/sdk-trace";
import { conversationOf, liveCallOf, setLiveCall } from "./context";
import { CONTENT, type StepSpan } from "./otlp";
import { conventionsOf } from "./vercel";

const FLUSH_MS = 5_000;
const PROVIDER = ["gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider"];
const MODEL_CALLS = new Set(["chat", "text_completion", "generate_content"]);

/** Where spans go while `init` is in effect. */
export interface SpanSink {
  addSpan(span: ReadableSpan): void;
  flush(timeoutMs: number): Promise<boolean>;
  /** Providers whose model calls Ratchet's gateway records. */
  readonly recorded: readonly string[];
}

const LEFT_OUT = Symbol("ratchet.left_out");

/** Leaves a span out: what it is about is recorded otherwise. */
export function leaveOut(span: object): void {
  (span as { [LEFT_OUT]?: true })[LEFT_OUT] = true;
}

/** The one processor of this process, in however many providers. */
class RatchetProcessor implements SpanProcessor {
  sink: SpanSink | undefined;

  onStart(span: Span, parent: Context): void {
    if (!this.sink) return;
    const ids = conversationOf(parent);
    if (ids) span.setAttributes(ids);
    const call = liveCallOf(parent);
    if (call) setLiveCall(span, call);
  }

  onEnd(span: ReadableSpan): void {
    if (!this.sink || !(span.spanContext().traceFlags & TraceFlags.SAMPLED) || LEFT_OUT in span) return;
    const more = conventionsOf(span);
    if (more) (span as StepSpan)[CONTENT] = more;
    if (this.sink.recorded.length && isRecorded({ ...span.attributes, ...more }, this.sink.recorded)) return;
    this.sink.addSpan(span);
  }

  async forceFlush(): Promise<void> {
    await this.sink?.flush(FLUSH_MS);
  }

  /** The provider's end is not that of this process. */
  shutdown(): Promise<void> {
    return this.forceFlush();
  }
}

export const processor = new RatchetProcessor();

/**
 * The span processor for a provider that is set up by hand, where `init` cannot add it by itself.
 *
 * @example
 * new NodeSDK({ spanProcessors: [spanProcessor(), new BatchSpanProcessor(exporter)] }).start();
 * init({ agent: "booking" });
 */
export function spanProcessor(): SpanProcessor {
  return processor;
}

/** Whether a span is a model call that the gateway records as well. */
function isRecorded(attributes: Attributes, providers: readonly string[]): boolean {
  const kind = attributes["openinference.span.kind"];
  const operation = attributes["gen_ai.operation.name"] ?? "";
  if (kind !== "LLM" && !MODEL_CALLS.has(String(operation))) return false;
  return PROVIDER.some((key) => {
    const name = String(attributes[key] ?? "").toLowerCase();
    return providers.some((provider) => name.startsWith(provider));
  });
}
