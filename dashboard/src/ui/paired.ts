// Values that changed stand under one another: each old line is followed by the new one of the same name.
import type { Change } from "diff";

/** Changes by line, in which as many removed lines as added ones that set the same names alternate. */
export function paired(changes: Change[]): Change[] {
  const found: Change[] = [];
  for (let at = 0; at < changes.length; at++) {
    const change = changes[at]!;
    const next = changes[at + 1];
    const both = change.removed && next?.added ? pairs(linesOf(change.value), linesOf(next.value)) : undefined;
    if (!both) {
      found.push(change);
      continue;
    }
    for (const [old, young] of both) found.push({ ...change, value: old, count: 1 }, { ...next!, value: young, count: 1 });
    at += 1;
  }
  return found;
}

function pairs(old: string[], young: string[]): [string, string][] | undefined {
  if (old.length !== young.length) return undefined;
  const both = old.map((line, at): [string, string] => [line, young[at]!]);
  return both.every(([one, other]) => one.includes(" = ") && one.split(" = ")[0] === other.split(" = ")[0]) ? both : undefined;
}

/** The lines of a text, each with its end. */
function linesOf(text: string): string[] {
  return text.match(/.*\n|.+$/g) ?? [];
}
