/** Captures inputs and outputs as bounded JSON text; never throws and never changes them. */

import type { AttributeValue } from "@opentelemetry/api";

/** Maximum length of a captured value, in characters. */
export const CAPTURE_LIMIT = 16_384;

const MAX_DEPTH = 60;

/**
 * JSON text of a value, cut to a limit.
 *
 * An instance of a class without `toJSON` becomes its class's name: clients hold keys.
 */
export function capture(value: unknown, limit = CAPTURE_LIMIT): string {
  let text: string | undefined;
  try {
    room = limit;
    text = JSON.stringify(isPlain(value, 0) ? value : new Plain(limit).of(value, 0));
  } catch (error) {
    // A getter or a `toJSON` of the user's may throw anything.
    text = JSON.stringify(`<a value that cannot be shown: ${nameOf(error)}>`);
  }
  return shorten(text ?? "null", limit);
}

/** A text cut to a limit, with the number of missing characters appended. */
export function shorten(text: string, limit = CAPTURE_LIMIT): string {
  if (text.length <= limit) return text;
  return `${text.slice(0, limit).toWellFormed()}… [${text.length - limit} more characters]`;
}

/** A value as an attribute has it. */
export function attributeOf(value: unknown): AttributeValue {
  if (typeof value === "string") return shorten(value);
  return typeof value === "number" || typeof value === "boolean" ? value : capture(value);
}

/** What an error says, with its class; never throws. */
export function sentenceOf(error: unknown): string {
  try {
    return shorten(error instanceof Error ? `${kindOf(error)}: ${error.message}` : String(error));
  } catch {
    return "an error that cannot be shown";
  }
}

/** Kind of an error: its name, or its class's where that says more. */
export function kindOf(error: Error): string {
  return error.name === "Error" ? nameOf(error) : error.name;
}

function nameOf(value: unknown): string {
  try {
    const name: unknown = (value as object).constructor.name;
    return typeof name === "string" && name ? name : "object";
  } catch {
    return "object";
  }
}

const QUICK_DEPTH = 12;

/** Characters that `isPlain` has left. */
let room = 0;

/** Whether a value is small data as JSON has it, which most are; makes no garbage. */
function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case "string":
      room -= value.length;
      return room >= 0 && value.isWellFormed();
    case "number":
      return Number.isFinite(value);
    case "boolean":
    case "undefined":
      return true;
    case "object":
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (depth > QUICK_DEPTH) return false;
  if (Array.isArray(value)) {
    room -= value.length;
    for (let index = 0; index < value.length; index++) {
      if (room < 0 || !isPlain(value[index], depth + 1)) return false;
    }
    return true;
  }
  const record = value as Record<string, unknown>;
  if (Object.getPrototypeOf(record) !== Object.prototype || record["toJSON"] !== undefined) return false;
  for (const key in record) {
    room -= key.length;
    if (room < 0 || !isPlain(record[key], depth + 1)) return false;
  }
  return true;
}

/** Replaces what JSON cannot represent, and the parts that cannot fit into the limit. */
class Plain {
  private readonly above: object[] = [];

  constructor(private left: number) {}

  of(value: unknown, depth: number): unknown {
    switch (typeof value) {
      case "string":
        this.left -= value.length;
        if (value.length > 100_000) return shorten(value, 100_000);
        return value.isWellFormed() ? value : value.toWellFormed();
      case "number":
        this.left -= 1;
        return Number.isFinite(value) ? value : String(value);
      case "boolean":
      case "undefined":
        this.left -= 1;
        return value;
      case "bigint":
        return String(value);
      case "symbol":
      case "function":
        return `<${typeof value}>`;
      default:
        return value === null ? null : this.object(value as object, depth);
    }
  }

  private object(value: object, depth: number): unknown {
    if (this.above.includes(value)) return "<itself>";
    if (depth > MAX_DEPTH) return "<nested too deeply>";
    const prototype: unknown = Object.getPrototypeOf(value);
    this.above.push(value);
    try {
      if (Array.isArray(value)) return this.array(value, depth);
      const { toJSON } = value as { toJSON?: unknown };
      if (typeof toJSON === "function" && !ArrayBuffer.isView(value)) {
        return this.of(toJSON.call(value, ""), depth + 1);
      }
      if (prototype === null || prototype === Object.prototype || isForeignPlain(prototype)) {
        return this.record(value as Record<string, unknown>, depth);
      }
      if (value instanceof Error) return `${value.name}: ${value.message}`;
      if (value instanceof Set) return this.array([...take(value, this.left)], depth);
      if (value instanceof Map) {
        return this.record(Object.fromEntries(take(value, this.left)) as Record<string, unknown>, depth);
      }
      if (ArrayBuffer.isView(value)) return `<${nameOf(value)} of ${value.byteLength} bytes>`;
      return `<${nameOf(value)}>`;
    } finally {
      this.above.pop();
    }
  }

  private array(value: readonly unknown[], depth: number): unknown {
    let changed: unknown[] | undefined;
    for (let index = 0; index < value.length; index++) {
      if (this.left < 0) {
        return [...(changed ?? value.slice(0, index)), `… [${value.length - index} more items]`];
      }
      const item = value[index];
      const kept = this.of(item, depth + 1);
      if (kept !== item) changed ??= value.slice(0, index);
      changed?.push(kept);
    }
    return changed ?? value;
  }

  private record(value: Record<string, unknown>, depth: number): unknown {
    let changed: Record<string, unknown> | undefined;
    const keys = Object.keys(value);
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index] as string;
      if (this.left < 0) {
        const before = changed ?? copied(value, keys, index);
        before["…"] = `[${keys.length - index} more items]`;
        return before;
      }
      this.left -= key.length;
      const item = value[key];
      const kept = this.of(item, depth + 1);
      if (kept !== item) changed ??= copied(value, keys, index);
      if (changed) changed[key] = kept;
    }
    return changed ?? value;
  }
}

function copied(value: Record<string, unknown>, keys: string[], count: number): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const key of keys.slice(0, count)) copy[key] = value[key];
  return copy;
}

/** Whether a prototype is `Object.prototype` of another realm, such as that of a test runner. */
function isForeignPlain(prototype: unknown): boolean {
  return (
    Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "hasOwnProperty")
  );
}

function* take<T>(items: Iterable<T>, count: number): Generator<T> {
  for (const item of items) {
    if (count-- < 0) return;
    yield item;
  }
}
