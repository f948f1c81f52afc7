import { describe, expect, it } from "vitest";
import { messagesIn, recordedIn } from "./messages";

describe("messages of a span", () => {
  it("reads OpenTelemetry's messages, given as JSON text", () => {
    const value = JSON.stringify([
      { role: "user", parts: [{ type: "text", content: "hi" }] },
      { role: "assistant", parts: [{ type: "tool_call", name: "find", arguments: { q: 1 } }] },
      { role: "tool", parts: [{ type: "tool_call_response", response: "found" }] },
    ]);
    expect(messagesIn(value).map((message) => message.parts[0])).toEqual([
      { kind: "text", text: "hi" },
      { kind: "call", name: "find", text: '{\n  "q": 1\n}' },
      { kind: "result", text: "found" },
    ]);
  });
  it("shows text that is no JSON, or cut off, as it is", () => {
    expect(messagesIn('[{"role": "user", "pa')).toEqual([{ role: "user", parts: [{ kind: "text", text: '[{"role": "user", "pa' }] }]);
  });
  it("takes messages with content in place of parts", () => {
    expect(messagesIn([{ role: "system", content: "be brief" }])[0]).toEqual({ role: "system", parts: [{ kind: "text", text: "be brief" }] });
  });
  it("leaves nothing out that has another shape", () => {
    expect(messagesIn([{ role: "user", parts: [{ type: "blob", data: "AAAA" }] }])[0]?.parts[0]?.text).toContain("AAAA");
    expect(messagesIn([3, null])[0]?.parts.length).toBe(2);
  });
  it("has nothing where nothing was recorded", () => {
    expect(recordedIn({})).toEqual({ system: "", input: [], output: [], arguments: undefined, result: undefined });
  });
});
