/** What is carried along with OpenTelemetry's context: the conversation, and the live call. */

import { context, createContextKey, trace, type Attributes, type Context, type Span } from "@opentelemetry/api";
import { TAGS, tagsOf } from "./tags";
import type { Resources } from "./resources";

/** What each span of a conversation carries: its id, the user's, tags. */
export type Conversation = Readonly<Attributes>;

/** A live call: what it runs with, and whether it has ended. */
export interface LiveCall {
  readonly resources: Resources;
  over: boolean;
  /** Tells that the call has begun, when it takes long. */
  timer?: NodeJS.Timeout;
}

const CONVERSATION = createContextKey("ratchet.conversation");
const LIVE_CALL = Symbol("ratchet.live_call");

type SpanOfCall = Span & { [LIVE_CALL]?: LiveCall | undefined };

export const CONVERSATION_ID = "gen_ai.conversation.id";
export const USER_ID = "user.id";
const MAX_ID = 200;

/** An id of a context's conversation; undefined outside of one. */
export function idOf(from: Context, key: typeof CONVERSATION_ID | typeof USER_ID): string | undefined {
  return conversationOf(from)?.[key] as string | undefined;
}

/** The conversation of a context. */
export function conversationOf(from: Context): Conversation | undefined {
  return from.getValue(CONVERSATION) as Conversation | undefined;
}

/** The live call that a context belongs to; undefined outside of one, and after its end. */
export function liveCallOf(from: Context): LiveCall | undefined {
  const call = callOf(trace.getSpan(from));
  return call?.over ? undefined : call;
}

/** The live call that a span is part of. */
export function callOf(span: Span | undefined): LiveCall | undefined {
  return (span as SpanOfCall | undefined)?.[LIVE_CALL];
}

/**
 * Makes a span part of a live call. It is kept on the span, which its context holds anyway: a value
 * of its own in the context would make each step slower.
 */
export function setLiveCall(span: Span, call: LiveCall | undefined): void {
  (span as SpanOfCall)[LIVE_CALL] = call;
}

/**
 * Runs a function whose spans all belong to a conversation, those of instrumented libraries too.
 *
 * @param id Your own id of the conversation.
 * @param run The function; its result is returned.
 * @param options `user`: your own id of the user; it need not contain a name or an address. `tags`: what
 *   each of the spans is tagged with.
 * @example
 * await conversation(chat.id, () => answer(question), { user: chat.userId, tags: ["beta"] });
 */
export function conversation<T>(
  id: string,
  run: () => T,
  options: { user?: string | undefined; tags?: readonly string[] | undefined } = {},
): T {
  const ids: Attributes = { [CONVERSATION_ID]: identifier(id) };
  if (options.user !== undefined) ids[USER_ID] = identifier(options.user);
  if (options.tags?.length) ids[TAGS] = tagsOf(options.tags);
  return context.with(context.active().setValue(CONVERSATION, ids), run);
}

/** An id as it is sent: at most 200 characters. */
export function identifier(id: unknown): string {
  return String(id).toWellFormed().slice(0, MAX_ID);
}
