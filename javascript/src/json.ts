/** Foreign JSON, read safely: servers that speak a provider's API differ from its documentation. */

import { shorten } from "./capture";

export type Json = Record<string, unknown>;

/** Maximum length of a text, in characters. */
export const TEXT_LIMIT = 65_536;

/** Maximum number of entries of a list that grows. */
export const MAX_ITEMS = 1_000;

/** The value if it is an object, else an empty one. */
export function mapping(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

/** The value if it is an array, else an empty one. */
export function items(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The value if it is a text, else an empty one. */
export function name(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The value if it is a non-negative integer. */
export function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** A text that arrives in pieces; characters beyond the limit are counted but not kept. */
export class GrowingText {
  #text = "";
  #size = 0;

  /** Appends a piece; anything but a string is ignored. */
  add(piece: unknown): void {
    if (typeof piece !== "string") return;
    if (this.#text.length < TEXT_LIMIT) this.#text += piece.slice(0, TEXT_LIMIT - this.#text.length);
    this.#size += piece.length;
  }

  /** Number of characters. */
  get size(): number {
    return this.#size;
  }

  /** The text so far. */
  get text(): string {
    const missing = this.#size - this.#text.length;
    return missing ? `${this.#text}… [${missing} more characters]` : this.#text;
  }
}

const BINARY = /^(data:[^,]{0,200},)?[A-Za-z0-9+/_=-]{1000}/;
const BODY_LIMIT = 250_000;

/**
 * JSON text of a request or an answer, with long texts cut and base64 left out; of a list that makes
 * it too long, the first and the newest entries.
 *
 * @param body The request or the answer.
 * @param lists Names of lists that may be too long.
 */
export function boundedJson(body: Json, lists: readonly string[]): string {
  const text = JSON.stringify(body, shortened);
  if (text.length <= BODY_LIMIT) return text;
  const shown = JSON.parse(text) as Json;
  let left = BODY_LIMIT - text.length - 1_000;
  for (const key of lists) {
    const [first, ...others] = items(shown[key]);
    const sizes = others.map((each) => JSON.stringify(each).length + 1);
    let dropped = 0;
    while (left < 0 && dropped < others.length) left += sizes[dropped++] as number;
    const omitted = { role: "omitted", content: `${dropped} entries are left out.` };
    if (dropped) shown[key] = [first, omitted, ...others.slice(dropped)];
  }
  if (left >= 0) return JSON.stringify(shown);
  return JSON.stringify(Object.fromEntries(Object.entries(shown).filter(([, value]) => typeof value !== "object")));
}

function shortened(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "string" || value.length <= 1_000) return value;
  const binary = BINARY.exec(value);
  return shorten(value, binary ? (binary[1] ?? "").length : TEXT_LIMIT);
}
