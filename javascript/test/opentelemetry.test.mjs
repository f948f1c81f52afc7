import assert from "node:assert/strict";
import { test } from "node:test";
import { collector, run } from "./collector.mjs";

const OWN = `
  import { context, diag, DiagConsoleLogger, trace as otel } from "@opentelemetry/api";
  import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
  import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
  import { resourceFromAttributes } from "@opentelemetry/resources";
  import { agent, init, spanProcessor, trace } from "agent-ratchet";
  diag.setLogger(new DiagConsoleLogger());
  const exporter = new InMemorySpanExporter();
  const own = (...more) => new TracerProvider({
    resource: resourceFromAttributes({ "service.name": "theirs", "deployment.environment": "test" }),
    spanProcessors: [new SimpleSpanProcessor({ exporter }), ...more],
  });
  const answer = agent(async (question) => {
    otel.getTracer("library").startActiveSpan("chat", (span) => span.end());
    return question;
  }, { name: "answer" });
  const shown = () => console.log(JSON.stringify(
    exporter.getFinishedSpans().map(({ name, attributes }) => [name, attributes])));
`;
const REGISTER = `
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  otel.setGlobalTracerProvider(own());
`;

async function ran(t, source, environment = {}) {
  const server = await collector();
  t.after(() => server.close());
  const done = await run(t, OWN + source, { RATCHET_URL: server.url, ...environment });
  assert.equal(done.code, 0, done.err);
  return { ...done, server, theirs: JSON.parse(done.out) };
}

function wholeTree(server) {
  const [chat, answer] = ["chat", "answer"].map(server.span);
  assert.equal(server.spans().length, 2);
  assert.equal(chat.parentSpanId, answer.spanId);
  assert.equal(answer.attributes["ratchet.input"], '"x"');
  assert.equal(answer.resource["service.name"], "a");
}

const MARKS = { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "answer" };

test("a provider that is there is joined: one span for a step, at both, contents only at Ratchet", async (t) => {
  const { server, theirs, err } = await ran(t, `${REGISTER} init({ agent: "a" }); await answer("x"); shown();`);
  wholeTree(server);
  assert.deepEqual(theirs, [["chat", {}], ["answer", MARKS]]);
  assert.equal(server.span("chat").resource["deployment.environment"], "test");
  assert.equal(err, "");
});

test("contents go to the other back end where OpenTelemetry's variable allows it", async (t) => {
  const { server, theirs } = await ran(t, `${REGISTER} init({ agent: "a" }); await answer("x"); shown();`, {
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true",
  });
  wholeTree(server);
  assert.deepEqual(theirs[1][1], { ...MARKS, "ratchet.input": '"x"', "ratchet.output": '"x"' });
});

test("a provider that is set later is joined too, and its back end gets whole trees", async (t) => {
  const { server, theirs, err } = await ran(
    t,
    `init({ agent: "a" });
     const early = otel.getTracer("early");
     early.startSpan("before").end();
     console.error(otel.setGlobalTracerProvider(own()));
     await answer("x");
     early.startSpan("after").end();
     shown();`,
  );
  assert.equal(err, "true\n");
  assert.deepEqual(theirs.map(([name]) => name), ["chat", "answer", "after"]);
  assert.deepEqual(server.spans().map(({ name }) => name).sort(), ["after", "answer", "before", "chat"]);
});

test("a processor that was added by hand is not added again", async (t) => {
  const { server, theirs } = await ran(
    t,
    `${REGISTER.replace("own()", "own(spanProcessor())")} init({ agent: "a" }); await answer("x"); shown();`,
  );
  wholeTree(server);
  assert.equal(theirs.length, 2);
});

test("a provider that takes no processor stays, and the way out is named", async (t) => {
  const closed = `
    const closed = own(); const foreign = { getTracer: (...given) => closed.getTracer(...given) };
    context.setGlobalContextManager(new AsyncLocalStorageContextManager());
    otel.setGlobalTracerProvider(foreign);
    init({ agent: "a" }); await answer("x"); shown();`;
  const { server, theirs, err } = await ran(t, closed);
  assert.match(err, /Add spanProcessor\(\) of agent-ratchet/);
  assert.deepEqual(theirs.map(([name]) => name), ["chat"]);
  assert.deepEqual(server.spans().map(({ name }) => name), ["answer"]);
});

test("what their sampler leaves out is not recorded", async (t) => {
  const source = `
    context.setGlobalContextManager(new AsyncLocalStorageContextManager());
    otel.setGlobalTracerProvider(new TracerProvider({ sampler: new AlwaysOffSampler() }));
    init({ agent: "a" }); console.log(JSON.stringify(await answer("x")));`;
  const { server, theirs } = await ran(t, `import { AlwaysOffSampler } from "@opentelemetry/sdk-trace"; ${source}`);
  assert.equal(theirs, "x");
  assert.deepEqual(server.spans(), []);
});

test("their flush sends Ratchet's spans too", async (t) => {
  const { server } = await ran(
    t,
    `const provider = own(); otel.setGlobalTracerProvider(provider);
     const handle = init({ agent: "a" }); trace("step", () => 1);
     await provider.forceFlush(); console.log(handle.status().sent);`,
  );
  assert.equal(server.spans().length, 1);
});
