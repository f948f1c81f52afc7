// A task's values as a person edits them.
import { Mistake } from "../../lib/mistake";

/** A value as a person edits it: a text as it is, anything else as JSON. */
export function asEdited(value: unknown): string {
  return typeof value === "string" ? value : value == null ? "" : JSON.stringify(value, null, 2);
}

/** What was written, in the form that the value had: a text stays a text. Throws a sentence. */
export function fromEdited(name: string, written: string, before: unknown): unknown {
  if (typeof before === "string") return written;
  if (written.trim() === "") return null;
  try {
    return JSON.parse(written) as unknown;
  } catch {
    if (before == null) return written;
    throw new Mistake(`${name} is not JSON, as it was before. A text stands in quotation marks.`);
  }
}
