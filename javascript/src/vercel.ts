/**
 * The spans of Vercel's AI SDK up to version 6, in the names of OpenTelemetry's GenAI conventions.
 *
 * Version 7 writes these itself, by `@ai-sdk/otel`.
 */

import type { Attributes } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace";

const SCOPE = "ai";

type Part = Readonly<Record<string, unknown>>;

/** The attributes that a span of the AI SDK lacks; undefined for other spans. */
export function conventionsOf(span: ReadableSpan): Attributes | undefined {
  if (span.instrumentationScope.name !== SCOPE) return undefined;
  const from = span.attributes;
  const operation = from["ai.operationId"];
  if (operation === "ai.toolCall") {
    return compact({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": from["ai.toolCall.name"],
      "gen_ai.tool.call.id": from["ai.toolCall.id"],
      "gen_ai.tool.call.arguments": from["ai.toolCall.args"],
      "gen_ai.tool.call.result": from["ai.toolCall.result"],
    });
  }
  if (typeof operation === "string" && /\.do(Generate|Stream)$/.test(operation)) {
    const answer = answerOf(from);
    return compact({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": String(from["gen_ai.system"] ?? "").split(".")[0] || undefined,
      "gen_ai.input.messages": messagesOf(from["ai.prompt.messages"]),
      "gen_ai.output.messages": answer.length
        ? JSON.stringify([{ role: "assistant", parts: answer, finish_reason: from["ai.response.finishReason"] }])
        : undefined,
    });
  }
  const text = from["ai.response.text"] ?? from["ai.response.object"];
  return compact({ "ratchet.input": from["ai.prompt"], "ratchet.output": text && JSON.stringify(text) });
}

function compact(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}

function jsonOf(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined; // it was cut
  }
}

function messagesOf(text: unknown): string | undefined {
  const messages = jsonOf(text);
  if (!Array.isArray(messages)) return undefined;
  return JSON.stringify(
    (messages as Part[]).map(({ role, content }) => ({
      role,
      parts: typeof content === "string" ? [said(content)] : Array.isArray(content) ? content.map(partOf) : [],
    })),
  );
}

function partOf(part: Part): Part {
  switch (part["type"]) {
    case "text":
    case "reasoning":
      return { type: part["type"], content: part["text"] };
    case "tool-call":
      return called(part);
    case "tool-result": {
      const output = part["output"] as Part | undefined;
      return { type: "tool_call_response", id: part["toolCallId"], response: output?.["value"] ?? part["result"] };
    }
    default:
      return { type: part["type"] };
  }
}

function answerOf(from: Attributes): Part[] {
  const calls = jsonOf(from["ai.response.toolCalls"]);
  const text = from["ai.response.text"];
  return [
    ...(typeof text === "string" && text ? [said(text)] : []),
    ...(Array.isArray(calls) ? (calls as Part[]).map(called) : []),
  ];
}

function said(content: string): Part {
  return { type: "text", content };
}

function called(part: Part): Part {
  const given = part["input"] ?? part["args"];
  const known = jsonOf(given);
  return { type: "tool_call", id: part["toolCallId"], name: part["toolName"], arguments: known ?? given };
}
