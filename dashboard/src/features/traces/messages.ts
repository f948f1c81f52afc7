// What a span recorded of messages and of a tool's call, read leniently: attributes may be JSON
// text, cut off, or of another shape. What cannot be read is left to the table of attributes.

export interface Part {
  kind: "text" | "call" | "result" | "other";
  /** Name of the tool, for a call. */
  name?: string;
  text: string;
}

export interface Message {
  role: string;
  parts: Part[];
}

export interface Recorded {
  system: string;
  input: Message[];
  output: Message[];
  arguments?: string;
  result?: string;
}

export function recordedIn(attributes: Record<string, unknown>): Recorded {
  const of = (name: string) => attributes[name];
  return {
    system: messagesIn(of("gen_ai.system_instructions"), "system")
      .flatMap((message) => message.parts.map((part) => part.text))
      .join("\n"),
    input: messagesIn(of("gen_ai.input.messages")),
    output: messagesIn(of("gen_ai.output.messages"), "assistant"),
    arguments: textOf(of("gen_ai.tool.call.arguments")),
    result: textOf(of("gen_ai.tool.call.result")),
  };
}

/** Attributes that the messages above already show. */
export const SHOWN = new Set([
  "gen_ai.system_instructions",
  "gen_ai.input.messages",
  "gen_ai.output.messages",
  "gen_ai.tool.call.arguments",
  "gen_ai.tool.call.result",
]);

export function messagesIn(value: unknown, role = "user"): Message[] {
  const found = parsed(value);
  if (found === undefined) return typeof value === "string" && value ? [{ role, parts: [{ kind: "text", text: value }] }] : [];
  const list = Array.isArray(found) ? found : [found];
  const messages: Message[] = [];
  const loose: Part[] = [];
  for (const entry of list) {
    if (isObject(entry) && ("role" in entry || "parts" in entry)) {
      const parts = entry.parts ?? entry.content;
      const given = Array.isArray(parts) ? parts : parts == null || parts === "" ? [] : [parts];
      messages.push({ role: typeof entry.role === "string" && entry.role ? entry.role : role, parts: given.map(part) });
    } else loose.push(part(entry));
  }
  return loose.length > 0 ? [{ role, parts: loose }, ...messages] : messages;
}

export function part(value: unknown): Part {
  if (!isObject(value)) return { kind: "text", text: textOf(value) ?? "" };
  const type = String(value.type ?? "");
  if (type === "tool_call" || "arguments" in value)
    return { kind: "call", name: String(value.name ?? "tool"), text: textOf(value.arguments) ?? "" };
  if (type === "tool_call_response" || "response" in value || "result" in value)
    return { kind: "result", text: textOf(value.response ?? value.result ?? value.content) ?? "" };
  const content = value.content ?? value.text;
  if (content !== undefined && (type === "" || type === "text" || type === "reasoning"))
    return { kind: "text", text: textOf(content) ?? "" };
  return { kind: "other", name: type, text: textOf(value) ?? "" };
}

function parsed(value: unknown): unknown {
  if (typeof value !== "string") return value ?? undefined;
  try {
    const found: unknown = JSON.parse(value);
    return typeof found === "object" && found !== null ? found : undefined;
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
