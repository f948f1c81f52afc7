/** `feedback`: what users think of the agent's answers, sent in the background. Never throws. */

import { randomUUID } from "node:crypto";
import { context, isSpanContextValid, trace } from "@opentelemetry/api";
import { capture, shorten } from "./capture";
import { CONVERSATION_ID, identifier, idOf } from "./context";
import { RatchetError, warnOnce } from "./errors";

const MAX_COMMENT = 19_900;
const MAX_CONTENT = 50_000;

/** One statement about something that the agent did. */
export interface Statement {
  /** A score in [0, 1]; 1 is best. */
  readonly value?: number;
  readonly thumbs?: "up" | "down" | boolean;
  /** A score on the scale. */
  readonly rating?: number;
  /** The worst and the best rating, such as [1, 5]; [0, 1] when left out. */
  readonly scale?: readonly [number, number];
  /** The correct answer; any JSON value. */
  readonly correction?: unknown;
  /** The better and the worse of two answers. */
  readonly preference?: readonly [unknown, unknown];
  /** What the user did: asked again, left, or copied the answer. */
  readonly signal?: "retry" | "abandonment" | "copy";
  readonly comment?: string;
  readonly rolloutId?: string;
  readonly traceId?: string;
  readonly spanId?: string;
  readonly conversationId?: string;
  /** An id of your own. Only the first statement with an id is stored. */
  readonly id?: string;
}

/** What is running here: the ids that feedback may name. */
export interface Current {
  /** Empty outside of a trace. */
  readonly traceId: string;
  readonly spanId: string;
  /** Empty outside of a conversation. */
  readonly conversationId: string;
}

let take: ((item: Record<string, unknown>) => boolean) | undefined;

/** Passes feedback on from now on, or no more. */
export function passFeedback(to: typeof take): void {
  take = to;
}

/** Ids of the current trace, span and conversation, for feedback that comes later. */
export function current(): Current {
  const active = context.active();
  const span = trace.getSpanContext(active);
  const known = span !== undefined && isSpanContextValid(span);
  return {
    traceId: known ? span.traceId : "",
    spanId: known ? span.spanId : "",
    conversationId: idOf(active, CONVERSATION_ID) ?? "",
  };
}

/**
 * Rates something that the agent did, now or long after.
 *
 * Without an id it applies to the current trace and conversation. A mistake is a warning, no error.
 *
 * @returns The statement's id; empty when nothing is sent.
 * @example
 * feedback({ thumbs: "down", traceId, comment: "It is on page 3." });
 */
export function feedback(statement: Statement): string {
  if (!take) return "";
  try {
    const item = itemOf(statement);
    return take(item) ? String(item["id"]) : "";
  } catch (error) {
    warnOnce(`Feedback was not sent: ${error instanceof Error ? error.message : String(error)}`);
    return "";
  }
}

function itemOf(given: Statement): Record<string, unknown> {
  const [kind, value, content] = statementOf(given);
  if (value !== undefined && !(value >= 0 && value <= 1)) {
    throw new RatchetError(`A value is a number from 0 to 1, not ${value}.`);
  }
  const named = given.rolloutId || given.traceId || given.conversationId;
  const about = named ? given : { ...current(), ...(given.spanId ? { spanId: given.spanId } : {}) };
  if (!named && !about.traceId && !about.conversationId) {
    throw new RatchetError("Name a trace, a conversation or a rollout.");
  }
  return {
    id: identifier(given.id || randomUUID().replaceAll("-", "")),
    kind,
    ...(value === undefined ? {} : { value }),
    ...(content === undefined ? {} : { content }),
    comment: shorten((given.comment ?? "").toWellFormed(), MAX_COMMENT),
    rollout_id: identifier(given.rolloutId ?? ""),
    trace_id: identifier(about.traceId ?? "").toLowerCase(),
    span_id: identifier(named ? (given.spanId ?? "") : about.spanId).toLowerCase(),
    conversation_id: identifier(about.conversationId ?? ""),
    created_at: Date.now() / 1_000,
  };
}

/** Kind, value and content of a statement. */
function statementOf(given: Statement): [kind: string, value: number | undefined, content?: unknown] {
  const ways = ["thumbs", "rating", "correction", "preference", "signal"] as const;
  const said = ways.filter((way) => given[way] !== undefined);
  if (said.length > 1) throw new RatchetError(`One call takes only one of ${said.join(", ")}. Make a call for each.`);
  const { value, thumbs, rating, preference } = given;
  switch (said[0]) {
    case undefined:
      if (value === undefined && !given.comment) throw new RatchetError("It says nothing.");
      return [value === undefined ? "comment" : "rating", value];
    case "thumbs":
      return ["thumbs", thumbs === "up" || thumbs === true ? 1 : 0];
    case "rating": {
      const [worst, best] = given.scale ?? [0, 1];
      if (worst === best) throw new RatchetError(`The scale [${worst}, ${best}] is not two different numbers.`);
      return ["rating", ((rating as number) - worst) / (best - worst)];
    }
    case "preference":
      if (!Array.isArray(preference) || preference.length !== 2) {
        throw new RatchetError("A preference is a pair of answers: the better and the worse.");
      }
      return ["preference", value, { chosen: plain(preference[0]), rejected: plain(preference[1]) }];
    case "correction":
      return ["correction", value, plain(given.correction)];
    default:
      return [given.signal as string, value];
  }
}

/** A value as JSON data, or as text where it is too long. */
function plain(value: unknown): unknown {
  const text = capture(value, MAX_CONTENT);
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
