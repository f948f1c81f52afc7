/** `setAttributes` and `setTags`: say more of the current step, from wherever it runs. */

import { context, trace } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";
import { attributeOf } from "./capture";
import { isRecording } from "./step";
import { TAGS, tagsOf } from "./tags";

/**
 * Adds attributes to the current step, the innermost that runs here; without one it does nothing.
 *
 * @param attributes Anything but text, numbers and booleans becomes JSON; undefined is left out.
 * @example
 * setAttributes({ "ratchet.group": customer.plan, rows: rows.length });
 */
export function setAttributes(attributes: Readonly<Record<string, unknown>>): void {
  const span = isRecording() ? trace.getSpan(context.active()) : undefined;
  if (!span?.isRecording()) return;
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined) span.setAttribute(key, attributeOf(value));
  }
}

/**
 * Adds tags to the current step; without one it does nothing.
 *
 * @example
 * setTags("refund", "escalated");
 */
export function setTags(...tags: string[]): void {
  const span = isRecording() ? trace.getSpan(context.active()) : undefined;
  if (!span?.isRecording()) return;
  const before = (span as Partial<ReadableSpan>).attributes?.[TAGS];
  span.setAttribute(TAGS, tagsOf([...(Array.isArray(before) ? before : []), ...tags]));
}
