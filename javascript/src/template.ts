/** Prompt templates: text with `{placeholders}`; literal braces are doubled. */

import { RatchetError } from "./errors";

/** How a prompt's text is read, by the names that Python has: with `{placeholders}`, or as it is. */
export type Engine = "f-string" | "plain";

/** A parsed template. */
export interface Template {
  readonly text: string;
  readonly engine: Engine;
  readonly placeholders: ReadonlySet<string>;
  /** Texts, and the placeholders between them as paths: a name, then attributes or items. */
  readonly parts: ReadonlyArray<string | readonly string[]>;
}

const FIELD = /^[\p{L}_$][\p{L}\p{N}_$]*(?:\.[\p{L}_$][\p{L}\p{N}_$]*|\[[^[\]{}]+\])*$/u;
const STEP = /[^.[\]]+/g;

/**
 * Parses a template.
 *
 * Written as in Python: `{name}`, `{user.name}`, `{rows[0]}`. Conversions and format specifications
 * are Python's alone.
 *
 * @throws RatchetError if a brace is not closed, or holds no name.
 */
export function parseTemplate(text: string): Template {
  if (typeof text !== "string") throw new RatchetError(`A prompt is text, not ${typeof text}.`);
  const parts: Array<string | string[]> = [];
  const placeholders = new Set<string>();
  let literal = "";
  for (let index = 0; index < text.length; index++) {
    const character = text[index] as string;
    if (character !== "{" && character !== "}") {
      literal += character;
    } else if (text[index + 1] === character) {
      literal += character;
      index++;
    } else {
      const end = character === "{" ? text.indexOf("}", index) : -1;
      const field = text.slice(index + 1, end);
      if (end < 0 || !FIELD.test(field)) {
        const found = text.slice(index, end < 0 ? index + 20 : end + 1);
        throw new RatchetError(
          `The prompt is no template: ${JSON.stringify(found)} is not a placeholder such as {name}.` +
            " Double literal braces: {{ and }}.",
        );
      }
      const path = field.match(STEP) as [string, ...string[]];
      placeholders.add(path[0]);
      if (literal) parts.push(literal);
      parts.push(path);
      literal = "";
      index = end;
    }
  }
  if (literal) parts.push(literal);
  return { text, engine: "f-string", placeholders, parts };
}

/** Text without placeholders, whose braces mean nothing. */
export function plain(text: string): Template {
  return { text, engine: "plain", placeholders: new Set(), parts: [text] };
}

/** The slots of a template: the names of the values that fill it. */
export type Slots<T extends string, Found extends string = never> = string extends T
  ? string
  : T extends `${string}{${infer After}`
    ? After extends `{${infer Rest}`
      ? Slots<Rest, Found>
      : After extends `${infer Field}}${infer Rest}`
        ? Slots<Rest, Found | Root<Field>>
        : Found
    : Found;

/** The name that a placeholder's path begins with. */
type Root<Field extends string> = Field extends `${infer Name}.${string}` | `${infer Name}[${string}`
  ? Root<Name>
  : Field;

/** A value for each slot; others are ignored. */
export type Fields<Slot extends string> = string extends Slot
  ? Readonly<Record<string, unknown>>
  : { readonly [Name in Slot]: {} | null };

/** The placeholders that nothing fills, as paths. Only own properties of plain data are reached. */
export function missingFrom(template: Template, fields: Readonly<Record<string, unknown>>): string[] {
  const paths = template.parts.filter((part) => typeof part !== "string");
  const missing = paths.filter((path) => valueAt(path, fields) === undefined);
  return [...new Set(missing.map((path) => `{${path.join(".")}}`))];
}

/** A placeholder of another template that this one does not have. */
export function foreignTo(own: Template, other: Template): string | undefined {
  return [...other.placeholders].find((name) => !own.placeholders.has(name));
}

/** Fills a template; a placeholder without a value stays empty. */
export function fill(template: Template, fields: Readonly<Record<string, unknown>>): string {
  let made = "";
  for (const part of template.parts) made += typeof part === "string" ? part : shown(valueAt(part, fields));
  return made;
}

function valueAt(path: readonly string[], fields: Readonly<Record<string, unknown>>): unknown {
  let value: unknown = fields;
  for (const step of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return value;
}

function shown(value: unknown): string {
  if (value === undefined) return "";
  if (typeof value === "object" && value !== null && String(value) === "[object Object]") {
    return JSON.stringify(value);
  }
  return String(value);
}
