/** `redact`: the user's own rule for what must not leave the process. Nothing passes unexamined. */

import { warnOnce } from "./errors";

/**
 * Replaces what must not leave the process in a text.
 *
 * @param text An input or output as JSON text, an attribute, the message of an error, a step's name.
 * @param key The attribute's name; `name`, `message` or `feedback` for the others.
 */
export type Redact = (text: string, key: string) => string;

/** What stands for a text on which `redact` failed. */
export const FAILED = "[redacted:error]";

/** Attribute with the error, as Ratchet's server has it. */
export const ERROR = "ratchet.redaction.error";

/** Attributes that say what kind of span it is, and which version of the agent ran; no content. */
const STRUCTURE = new Set([
  ...["operation.name", "provider.name", "system", "agent.name", "output.type"].map((name) => `gen_ai.${name}`),
  ...["request.model", "response.model", "response.id", "response.finish_reasons"].map((name) => `gen_ai.${name}`),
  ...["tool.name", "tool.type", "tool.call.id"].map((name) => `gen_ai.${name}`),
  ...["candidate_id", "experiment_id", "arm", "unit", "release", "resources", "model_api"].map(
    (name) => `ratchet.${name}`,
  ),
  ...["rollout.id", "attempt", "redaction.error"].map((name) => `ratchet.${name}`),
  ...["openinference.span.kind", "llm.provider", "llm.system", "llm.model_name", "ai.operationId", "ai.model.id"],
  ...["ai.model.provider", "openai.response.service_tier", "error.type", "service.name", "telemetry.sdk.language"],
]);

/** A text after `redact`. */
export type Redacted = (text: string, key: string) => string;

/** Thrown where `redact` gives no text. */
class RedactFailed extends Error {}

/**
 * What `make` makes of texts that `redact` has examined; where it fails, of texts that say so.
 *
 * @param redact The user's rule; undefined for none.
 * @param make Makes something with texts; it is called again after a failure, with the error's kind.
 */
export function withRedacted<T>(redact: Redact | undefined, make: (redacted: Redacted, failure: string) => T): T {
  if (!redact) return make((text) => text, "");
  try {
    return make((text, key) => (STRUCTURE.has(key) ? text : examined(redact, text, key)), "");
  } catch (error) {
    if (!(error instanceof RedactFailed)) throw error;
    return make((text, key) => (STRUCTURE.has(key) ? text : FAILED), error.message);
  }
}

function examined(redact: Redact, text: string, key: string): string {
  let made: unknown;
  let failure = "";
  try {
    made = redact(withoutCutWord(text), key);
    if (typeof made === "string") return made;
    failure = typeof (made as Promise<unknown> | undefined)?.then === "function" ? "a promise" : typeof made;
    failure = `it returned ${failure} instead of a text`;
  } catch (error) {
    // Its message may hold what was to be removed.
    failure = error instanceof Error ? error.constructor.name : typeof error;
  }
  warnOnce(`The function \`redact\` of init() failed (${failure}): what it failed on is sent without any content.`);
  throw new RedactFailed(failure);
}

/** A text that was cut, without the word that was cut: a rule may not know the beginning of a secret. */
function withoutCutWord(text: string): string {
  return text.endsWith(" more characters]") ? text.replace(/\S{1,500}(?=… \[\d+ more characters\]$)/u, "") : text;
}

/** A statement of feedback after `redact`. */
export function redactedFeedback(redact: Redact | undefined, item: Record<string, unknown>): Record<string, unknown> {
  return withRedacted(redact, (redacted) => ({
    ...item,
    comment: redacted(String(item["comment"]), "feedback"),
    conversation_id: item["conversation_id"] && redacted(String(item["conversation_id"]), "gen_ai.conversation.id"),
    ...("content" in item ? { content: inValue(item["content"], redacted) } : {}),
  }));
}

function inValue(value: unknown, redacted: Redacted): unknown {
  if (typeof value === "string") return redacted(value, "feedback");
  if (Array.isArray(value)) return value.map((each) => inValue(each, redacted));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [redacted(key, "feedback"), inValue(each, redacted)]),
  );
}
