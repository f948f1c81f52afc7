/** Spans as OTLP/JSON (opentelemetry-proto, docs/specification.md). */

import type { Attributes, AttributeValue, HrTime } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { ERROR, withRedacted, type Redact, type Redacted } from "./redaction";

/** Key of a step's inputs and outputs on its span, which other exporters do not see. */
export const CONTENT: unique symbol = Symbol("ratchet.content");

/** Name of the span that says that a live call has begun; see `ratchet.types.trace.START`. */
export const START = "ratchet.start";

/** A span that may have inputs and outputs. */
export type StepSpan = ReadableSpan & { [CONTENT]?: Attributes };

/**
 * The body of a request to /v1/traces.
 *
 * @param spans Spans that have ended.
 * @param sender Attributes of the sender, over those of the provider's own resource.
 * @param redact Removes what must not leave the process.
 */
export function exportRequest(spans: readonly StepSpan[], sender: Attributes, redact: Redact | undefined): string {
  const groups = new Map<unknown, Map<unknown, StepSpan[]>>();
  for (const span of spans) {
    const scopes = setDefault(groups, span.resource, () => new Map<unknown, StepSpan[]>());
    setDefault(scopes, span.instrumentationScope, (): StepSpan[] => []).push(span);
  }
  return JSON.stringify({
    resourceSpans: Array.from(groups.values(), (scopes) => ({
      resource: {
        attributes: withRedacted(redact, (redacted) =>
          pairs({ ...firstOf(scopes).resource.attributes, ...sender }, redacted),
        ),
      },
      scopeSpans: Array.from(scopes.values(), (found) => ({
        scope: scopeOf(found[0] as StepSpan),
        spans: found.map((span) => withRedacted(redact, (redacted, failure) => spanOf(span, redacted, failure))),
      })),
    })),
  });
}

/** Characters that a span takes, roughly. */
export function weightOf(span: StepSpan): number {
  let weight = 1_000;
  for (const attributes of [span.attributes, span[CONTENT] ?? {}]) {
    for (const key in attributes) {
      const value = attributes[key];
      weight += typeof value === "string" ? value.length : 20;
    }
  }
  for (const { attributes } of span.events) {
    for (const value of Object.values(attributes ?? {})) weight += String(value).length;
  }
  return weight;
}

function firstOf(scopes: Map<unknown, StepSpan[]>): StepSpan {
  const [spans] = scopes.values();
  return (spans as StepSpan[])[0] as StepSpan;
}

function setDefault<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let found = map.get(key);
  if (found === undefined) map.set(key, (found = make()));
  return found;
}

function scopeOf(span: StepSpan): object {
  const { name, version } = span.instrumentationScope;
  return { name: name.toWellFormed(), ...(version ? { version } : {}) };
}

function spanOf(span: StepSpan, redacted: Redacted, failure: string): object {
  const { traceId, spanId } = span.spanContext();
  const content = span[CONTENT];
  const attributes = content || failure ? { ...span.attributes, ...content } : span.attributes;
  if (failure) attributes[ERROR] = failure;
  return {
    traceId,
    spanId,
    parentSpanId: span.parentSpanContext?.spanId,
    name: redacted(span.name.toWellFormed(), "name"),
    kind: span.kind + 1,
    startTimeUnixNano: nanoseconds(span.startTime),
    endTimeUnixNano: nanoseconds(span.endTime),
    attributes: pairs(attributes, redacted),
    droppedAttributesCount: span.droppedAttributesCount,
    status: {
      code: span.status.code,
      message: span.status.message && redacted(span.status.message.toWellFormed(), "message"),
    },
    events: span.events.map((event) => ({
      name: event.name.toWellFormed(),
      timeUnixNano: nanoseconds(event.time),
      attributes: pairs(event.attributes ?? {}, redacted),
    })),
    links: span.links.map((link) => ({
      traceId: link.context.traceId,
      spanId: link.context.spanId,
      attributes: pairs(link.attributes ?? {}, redacted),
    })),
  };
}

function nanoseconds([seconds, rest]: HrTime): string {
  return `${seconds}${String(Math.trunc(rest)).padStart(9, "0")}`;
}

function pairs(attributes: Attributes, redacted: Redacted): object[] {
  const made: object[] = [];
  for (const key in attributes) {
    const value = attributes[key];
    if (value !== undefined && value !== null) {
      made.push({ key: key.toWellFormed(), value: valueOf(value, key, redacted) });
    }
  }
  return made;
}

function valueOf(value: AttributeValue, key: string, redacted: Redacted): object {
  switch (typeof value) {
    case "string":
      return { stringValue: redacted(value.toWellFormed(), key) };
    case "boolean":
      return { boolValue: value };
    case "number":
      if (Number.isSafeInteger(value)) return { intValue: value };
      return { doubleValue: Number.isFinite(value) ? value : String(value) };
    default: {
      const items: ReadonlyArray<string | number | boolean | null | undefined> = value;
      return { arrayValue: { values: items.map((item) => (item == null ? {} : valueOf(item, key, redacted))) } };
    }
  }
}
