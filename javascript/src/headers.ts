/** `traceHeaders`: puts what Ratchet's gateway records into the trace of here. */

import { context, trace, isSpanContextValid } from "@opentelemetry/api";
import { CONVERSATION_ID, idOf } from "./context";
import { rollout } from "./rollout";

/**
 * Headers for a model call that goes through Ratchet's gateway: the trace and the conversation.
 *
 * @example
 * await client.chat.completions.create({ model, messages }, { headers: traceHeaders() });
 */
export function traceHeaders(): Record<string, string> {
  const active = context.active();
  const span = trace.getSpanContext(active) ?? (rollout && trace.getSpanContext(rollout.root));
  const headers: Record<string, string> = {};
  if (span && isSpanContextValid(span)) {
    const flags = span.traceFlags.toString(16).padStart(2, "0");
    headers["traceparent"] = `00-${span.traceId}-${span.spanId}-${flags}`;
  }
  const conversation = idOf(active, CONVERSATION_ID);
  // A header has no line breaks and no letters beyond Latin-1.
  if (conversation && /^[\x21-\x7e]+$/.test(conversation)) {
    headers["x-ratchet-conversation"] = conversation;
  }
  return headers;
}
