// The messages of a trace's model calls, each once. Nothing here knows React.
import type { Message, Recorded } from "./messages";

export interface Call {
  span: string;
  recorded: Recorded;
}

export interface Said {
  span: string;
  message: Message;
}

/**
 * What each call adds to what was said before. A call repeats the messages before it, so of equal
 * ones only those beyond the number known so far are new: "yes" may be said twice.
 */
export function dialogue(calls: Call[]): Said[] {
  const known = new Map<string, number>();
  const said: Said[] = [];
  for (const { span, recorded } of calls) {
    const here = new Map<string, number>();
    const system: Message[] = recorded.system ? [{ role: "system", parts: [{ kind: "text", text: recorded.system }] }] : [];
    for (const message of [...system, ...recorded.input, ...recorded.output]) {
      const key = JSON.stringify([message.role, message.parts]);
      const count = (here.get(key) ?? 0) + 1;
      here.set(key, count);
      if (count > (known.get(key) ?? 0)) {
        said.push({ span, message });
        known.set(key, count);
      }
    }
  }
  return said;
}
