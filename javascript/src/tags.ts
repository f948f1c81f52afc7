/** Tags of steps. */

/** Attribute with the tags of a step. */
export const TAGS = "ratchet.tags";

const MAX_TAGS = 100;
const MAX_TAG = 200;

/** Tags as they are sent: each once, 100 at most, of at most 200 characters. */
export function tagsOf(tags: readonly unknown[]): string[] {
  return [...new Set(tags.map((tag) => String(tag).toWellFormed().slice(0, MAX_TAG)))].slice(0, MAX_TAGS);
}
