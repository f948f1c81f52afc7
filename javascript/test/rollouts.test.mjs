import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { collector, folderFor, run } from "./collector.mjs";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const ATTEMPT = "b7ad6b7169203331";

const PROGRAM = `
  import { trace as otel } from "@opentelemetry/api";
  import { agent, init, params, prompt, tool, traceHeaders } from "agent-ratchet";
  const handle = init({ agent: "a", server: "http://127.0.0.1:1", key: "rk_live" });
  const system = prompt("system", "Be {tone}.");
  const search = params("search", { k: 5 });
  const book = tool(async ({ room }) => { console.log("ACTED"); return { booked: room }; },
    { name: "book", sideEffects: true });
`;

/** A rollout as `ratchet runner` starts it. */
async function rollout(test, { resources = {}, replay, gateway } = {}) {
  const server = await collector();
  test.after(() => server.close());
  const folder = folderFor(test);
  const binding = join(folder, "binding.json");
  const task = join(folder, "task.json");
  writeFileSync(binding, JSON.stringify({ resources, candidate_id: "c", seed: 0 }));
  writeFileSync(task, JSON.stringify({ input: "x", metadata: replay ? { "ratchet.replay": replay } : {} }));
  return {
    server,
    binding,
    environment: {
      RATCHET_ROLLOUT_ID: "r1",
      RATCHET_ATTEMPT: "1",
      RATCHET_BINDING: binding,
      RATCHET_TASK_FILE: task,
      TRACEPARENT: `00-${TRACE}-${ATTEMPT}-01`,
      OTEL_EXPORTER_OTLP_ENDPOINT: server.url,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20ra_token",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=theirs,ratchet.rollout.id=r%2D1,ratchet.attempt=1",
      ...(gateway ? { OPENAI_BASE_URL: `${server.url}/gateway/r1@1/openai/v1` } : {}),
    },
  };
}

test("a rollout runs its candidate, and its spans are the attempt's", async (t) => {
  const resources = {
    system: { type: "prompt", text: "Be very {tone}!", engine: "f-string" },
    search: { type: "params", space: {}, values: { k: 9 } },
  };
  const { server, environment } = await rollout(t, { resources });
  const source = `${PROGRAM}
    otel.getTracer("library").startSpan("library").end();
    const answer = agent(async () => system.format({ tone: "brief" }) + search.k, { name: "answer" });
    console.log(await answer(), JSON.stringify(traceHeaders()));`;
  const { out } = await run(t, source, environment);
  assert.equal(out, `Be very brief!9 {"traceparent":"00-${TRACE}-${ATTEMPT}-01"}\n`);
  for (const name of ["answer", "library"]) {
    const span = server.span(name);
    assert.deepEqual([span.traceId, span.parentSpanId], [TRACE, ATTEMPT]);
    assert.equal(span.resource["ratchet.rollout.id"], "r-1");
    assert.equal(span.resource["ratchet.attempt"], "1");
  }
  assert.deepEqual([...new Set(server.requests.map(({ url }) => url))], ["/v1/traces"]);
  assert.equal(server.requests[0].headers.authorization, "Bearer ra_token");
});

test("a tool with side effects does not act, and the runner learns of it", async (t) => {
  const { server, binding, environment } = await rollout(t);
  const source = `${PROGRAM} await book({ room: "Elm" }).catch(({ name, message }) => console.log(name, message));`;
  const { out } = await run(t, source, environment);
  assert.match(out, /^SideEffectBlocked The tool "book" has side effects, but no recorded result/);
  assert.equal(readFileSync(`${binding}.blocked`, "utf8"), "book");
  assert.equal(server.span("book").status.code, 2);
});

test("it does not act either where nothing is recorded", async (t) => {
  const { binding } = await rollout(t);
  const source = `
    import { tool } from "agent-ratchet";
    try { tool(() => console.log("ACTED"), { name: "send", sideEffects: true })(); } catch ({ name }) { console.log(name); }`;
  for (const environment of [{ RATCHET_BINDING: binding }, { RATCHET_BINDING: "/nowhere/binding.json" }, { RATCHET_ROLLOUT_ID: "r" }]) {
    const { out } = await run(t, source, environment);
    assert.equal(out, "SideEffectBlocked\n");
  }
});

test("a recorded result is replayed, each once, in order, whatever the order of the arguments", async (t) => {
  const replay = [
    ["book", '{"room":"Elm","day":1}', '{"booked":"first"}'],
    ["book", '{"day":1,"room":"Elm"}', '{"booked":"second"}'],
    ["book", '{"room":"Fir"}', "null"],
  ];
  const { server, binding, environment } = await rollout(t, { replay });
  const source = `${PROGRAM}
    for (const given of [{ day: 1, room: "Elm" }, { room: "Elm", day: 1 }, { room: "Fir" }, { room: "Fir" }])
      console.log(JSON.stringify(await book(given).catch(({ name }) => name)));`;
  const { out } = await run(t, source, environment);
  assert.equal(out, '{"booked":"first"}\n{"booked":"second"}\nnull\n"SideEffectBlocked"\n');
  assert.equal(existsSync(`${binding}.blocked`), true);
  const [first] = server.spans();
  assert.equal(first.attributes["ratchet.replayed"], true);
  assert.equal(first.attributes["gen_ai.tool.call.result"], '{"booked":"first"}');
});

test("a model call that the gateway records is recorded once", async (t) => {
  const { server, environment } = await rollout(t, { gateway: true });
  const source = `${PROGRAM}
    const library = otel.getTracer("library");
    const span = (name, attributes) => library.startSpan(name, { attributes }).end();
    span("openai", { "openinference.span.kind": "LLM", "llm.system": "openai" });
    span("vercel", { "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai.chat" });
    span("anthropic", { "openinference.span.kind": "LLM", "llm.provider": "anthropic" });
    span("agent", { "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai" });`;
  await run(t, source, environment);
  assert.deepEqual(server.spans().map(({ name }) => name), ["anthropic", "agent"]);
});

test("where the rollout's server takes no spans, nothing is sent to the live one", async (t) => {
  const { server, environment } = await rollout(t);
  const { OTEL_RESOURCE_ATTRIBUTES: _, ...without } = environment;
  const source = `${PROGRAM.replace("http://127.0.0.1:1", server.url)} console.log(system.text, handle.status().on);`;
  const { out, err } = await run(t, source, without);
  assert.deepEqual([out, err], ["Be {tone}. false\n", ""]);
  assert.deepEqual(server.requests, []);
});

test("a prompt of the same name with other placeholders is another prompt", async (t) => {
  const resources = { system: { type: "prompt", text: "Be {slot_1}.", engine: "f-string" } };
  const { environment } = await rollout(t, { resources });
  const { out } = await run(t, `${PROGRAM} console.log(system.format({ tone: "brief" }));`, environment);
  assert.equal(out, "Be brief.\n");
});
