// JSON whose numbers keep the digits they were written with, so that the canonical form, and with
// it the digest, is the one that Python wrote.

export type Value = { number: string } | { text: string } | { list: Value[] } | { fields: [string, Value][] } | { word: "true" | "false" | "null" };

const TOKEN = /\s*(?:(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|("(?:[^"\\]|\\.)*")|(true|false|null)|([{}[\]:,]))/y;

/** Parse JSON text. Throws a SyntaxError where it is none. */
export function parse(text: string): Value {
  TOKEN.lastIndex = 0;
  const next = (): RegExpExecArray => {
    const found = TOKEN.exec(text);
    if (!found) throw new SyntaxError("This is not JSON.");
    return found;
  };
  const value = (token: RegExpExecArray): Value => {
    if (token[1] !== undefined) return { number: token[1] };
    if (token[2] !== undefined) return { text: JSON.parse(token[2]) as string };
    if (token[3] !== undefined) return { word: token[3] as "true" };
    if (token[4] === "[") {
      const list: Value[] = [];
      let at = next();
      while (at[4] !== "]") {
        list.push(value(at));
        at = next();
        if (at[4] === ",") at = next();
      }
      return { list };
    }
    if (token[4] === "{") {
      const fields: [string, Value][] = [];
      let at = next();
      while (at[4] !== "}") {
        const name = JSON.parse(at[2] ?? "") as string;
        if (next()[4] !== ":") throw new SyntaxError("This is not JSON.");
        fields.push([name, value(next())]);
        at = next();
        if (at[4] === ",") at = next();
      }
      return { fields };
    }
    throw new SyntaxError("This is not JSON.");
  };
  return value(next());
}

/** With sorted keys, no spaces and ASCII only; `without` names a field of the outermost object. */
export function canonical(value: Value, without?: string): string {
  if ("number" in value) return value.number;
  if ("word" in value) return value.word;
  if ("text" in value) return quoted(value.text);
  if ("list" in value) return `[${value.list.map((each) => canonical(each)).join(",")}]`;
  const fields = value.fields.filter(([name]) => name !== without).sort(([one], [other]) => byCodePoint(one, other));
  return `{${fields.map(([name, each]) => `${quoted(name)}:${canonical(each)}`).join(",")}}`;
}

function byCodePoint(one: string, other: string): number {
  const [first, second] = [[...one], [...other]];
  for (let at = 0; at < Math.min(first.length, second.length); at++) {
    const difference = first[at]!.codePointAt(0)! - second[at]!.codePointAt(0)!;
    if (difference) return difference;
  }
  return first.length - second.length;
}

function quoted(text: string): string {
  // Python escapes DEL and all beyond ASCII; JSON.stringify escapes only control characters.
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
