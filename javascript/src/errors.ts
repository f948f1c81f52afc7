/** Errors that a caller can act on, and warnings of which each is said once. */

/** A mistake in how this package is used; its message says what was expected. */
export class RatchetError extends Error {
  override name = "RatchetError";
}

/** A tool with side effects was called in a rollout: the rollout ends as `inconclusive`. */
export class SideEffectBlocked extends RatchetError {
  override name = "SideEffectBlocked";
}

const said = new Set<string>();

/** Says a sentence once in this process, as Node's warning `RatchetWarning`. */
export function warnOnce(sentence: string): void {
  if (said.has(sentence) || said.size >= 100) return;
  said.add(sentence);
  process.emitWarning(sentence, "RatchetWarning");
}
