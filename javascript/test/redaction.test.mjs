// Nothing leaves the process before `redact` has examined it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { collector, run } from "./collector.mjs";

const PROGRAM = (redact) => `
  import { agent, conversation, feedback, init, setAttributes, setTags, tool, trace } from "agent-ratchet";
  import { trace as otel } from "@opentelemetry/api";
  const handle = init({ agent: "a", redact: ${redact} });
  const find = tool(async ({ mail }) => ({ mail, rows: ["ann@example.com"] }), { name: "find" });
  const answer = agent(async (question) => {
    setAttributes({ asked: question, nested: { mail: "ann@example.com" }, "gen_ai.tool.name": "kept" });
    setTags("of ann@example.com");
    await find({ mail: "ann@example.com" });
    otel.getTracer("library").startActiveSpan("chat", (span) => {
      span.setAttributes({ list: ["ann@example.com", "b"], "gen_ai.operation.name": "chat", size: 3 });
      span.addEvent("said", { text: "ann@example.com" });
      span.end();
    });
    await trace("for ann@example.com", () => { throw new RangeError("no ann@example.com"); }).catch?.(() => {});
  }, { name: "answer" });
  await conversation("talk of ann@example.com", async () => {
    await answer("write to ann@example.com").catch(() => {});
    feedback({ correction: { to: ["ann@example.com"] }, comment: "ask ann@example.com" });
  }, { user: "ann@example.com", tags: ["ann@example.com"] });
`;
const MASK = `(text) => text.replaceAll("ann@example.com", "[mail]")`;

async function sent(t, redact, rest = "", environment = {}) {
  const server = await collector();
  t.after(() => server.close());
  const done = await run(t, PROGRAM(redact) + rest, { RATCHET_URL: server.url, ...environment });
  assert.equal(done.code, 0, done.err);
  const bodies = server.requests
    .filter(({ url }) => /traces|feedback/.test(url))
    .map(({ body }) => JSON.stringify(body));
  return { server, ...done, text: bodies.join("\n") };
}

for (const ending of ["", "process.exit(0);", "process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1000);"]) {
  test(`inputs, outputs, attributes, errors, events, names and feedback are redacted: ${ending || "at the end"}`, async (t) => {
    const server = await collector();
    t.after(() => server.close());
    await run(t, PROGRAM(MASK) + ending, { RATCHET_URL: server.url });
    const text = server.requests.map(({ body }) => JSON.stringify(body ?? "")).join("\n");
    assert.equal(text.includes("ann@example.com"), false, text.slice(0, 2_000));
    const root = server.span("answer");
    assert.equal(root.attributes["ratchet.input"], '"write to [mail]"');
    assert.deepEqual(JSON.parse(root.attributes.nested), { mail: "[mail]" });
    assert.deepEqual(root.attributes["ratchet.tags"], ["[mail]", "of [mail]"]);
    assert.equal(root.attributes["user.id"], "[mail]");
    assert.deepEqual(JSON.parse(server.span("find").attributes["gen_ai.tool.call.result"]), {
      mail: "[mail]",
      rows: ["[mail]"],
    });
    const chat = server.span("chat");
    assert.deepEqual([chat.attributes.list, chat.attributes.size], [["[mail]", "b"], 3]);
    assert.equal(chat.events[0].attributes[0].value.stringValue, "[mail]");
    const failed = server.span("for [mail]");
    assert.equal(failed.status.message, "RangeError: no [mail]");
    const [item] = server.feedback();
    assert.deepEqual([item.content, item.comment], [{ to: ["[mail]"] }, "ask [mail]"]);
    assert.equal(item.conversation_id, root.attributes["gen_ai.conversation.id"]);
  });
}

const failures = {
  throws: [`(text) => { throw new TypeError("cannot read " + text); }`, "TypeError"],
  "throws for some texts alone": [`(text, key) => { if (key === "nested") throw "no"; return text; }`, "string"],
  "is asynchronous": [`async (text) => text`, "it returned a promise instead of a text"],
  "returns nothing": [`() => {}`, "it returned undefined instead of a text"],
};
for (const [failure, [redact, kind]] of Object.entries(failures)) {
  test(`where redact ${failure}, the content stays here, and one warning says so`, async (t) => {
    const { server, err, text } = await sent(t, redact);
    assert.equal(err.match(/RatchetWarning/g).length, 1, err);
    assert.match(err, /`redact` of init\(\) failed/);
    assert.equal(err.includes("ann@example.com"), false);
    if (failure !== "throws for some texts alone") assert.equal(text.includes("ann@example.com"), false);
    const root = server.spans().find(({ attributes }) => attributes["gen_ai.operation.name"] === "invoke_agent");
    assert.deepEqual(
      [root.name, root.attributes["ratchet.input"], root.attributes.nested, root.attributes.asked],
      Array(4).fill("[redacted:error]"),
    );
    assert.equal(root.attributes["ratchet.redaction.error"], kind);
    assert.equal(root.attributes["gen_ai.agent.name"], "answer");
    assert.equal(server.spans().length, 4);
  });
}

test("the beginning of a secret at a cut is left out", async (t) => {
  const rest = `await trace("cut", (step) => { step.input("x".repeat(16_370) + " ann@example.com"); });`;
  const { server } = await sent(t, MASK, rest);
  const input = server.span("cut").attributes["ratchet.input"];
  assert.match(input, /x … \[\d+ more characters\]$/);
});

test("a redact that is no function records nothing, and an unknown option is named", async (t) => {
  const no = await sent(t, `"all"`);
  assert.match(no.err, /Nothing is recorded\. The option `redact` is a function of a text, not string/);
  assert.equal(no.server.spans().length, 0);
  const { err } = await sent(t, `undefined, mask: () => ""`);
  assert.match(err, /init\(\) has no option "mask"; its options are agent, .*redact/);
});
