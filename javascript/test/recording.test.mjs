import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { context, trace as otel } from "@opentelemetry/api";
import {
  agent,
  conversation,
  current,
  feedback,
  init,
  retriever,
  setAttributes,
  setTags,
  tool,
  trace,
  traceHeaders,
} from "agent-ratchet";
import { collector } from "./collector.mjs";

let server, handle;

before(async () => {
  server = await collector(({ url }) => (url.includes("/traffic") ? { status: 404 } : {}));
  handle = init({ agent: "my agent", server: `${server.url}/`, key: "rk_test" });
});
beforeEach(() => server.requests.splice(0));
after(async () => {
  await handle.shutdown();
  server.close();
});

const sent = async () => assert.equal(await handle.flush(), true);

test("a call is one trace: the agent, its steps and its tools", async () => {
  const search = retriever(async ({ query }) => [`about ${query}`], { name: "docs" });
  const find = tool(async function findRooms({ people }) {
    return [{ name: "Cedar", seats: people + 2 }];
  });
  const answer = agent(
    async (question) => {
      await search({ query: "rooms" });
      const count = await trace("count", (step) => {
        step.set("rows", [1, 2]);
        step.set("table", "rooms");
        step.input({ of: "rooms" });
        return 3;
      });
      const [room] = await find({ people: count });
      return `${room.name}: ${question}`;
    },
    { name: "rooms", mirror: true },
  );
  assert.equal(await answer("Which?"), "Cedar: Which?");
  await sent();
  const [root, docs, count, rooms] = ["rooms", "docs", "count", "findRooms"].map(server.span);
  assert.equal(root.parentSpanId, undefined);
  for (const span of [docs, count, rooms]) {
    assert.equal(span.parentSpanId, root.spanId);
    assert.equal(span.traceId, root.traceId);
  }
  assert.deepEqual(root.attributes, {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "rooms",
    "ratchet.mirror": true,
    "ratchet.input": '"Which?"',
    "ratchet.output": '"Cedar: Which?"',
  });
  assert.deepEqual(docs.attributes, {
    "gen_ai.operation.name": "retrieval",
    "gen_ai.retrieval.query.text": "rooms",
    "ratchet.input": '{"query":"rooms"}',
    "gen_ai.retrieval.documents": '["about rooms"]',
  });
  assert.deepEqual(count.attributes, {
    rows: "[1,2]",
    table: "rooms",
    "ratchet.input": '{"of":"rooms"}',
    "ratchet.output": "3",
  });
  assert.deepEqual(rooms.attributes, {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "findRooms",
    "gen_ai.tool.call.arguments": '{"people":3}',
    "gen_ai.tool.call.result": '[{"name":"Cedar","seats":5}]',
  });
  assert.equal(root.resource["service.name"], "my-agent");
  assert.equal(BigInt(root.endTimeUnixNano) >= BigInt(root.startTimeUnixNano), true);
  const [request] = server.requests.filter(({ url }) => url === "/v1/traces");
  assert.equal(request.headers.authorization, "Bearer rk_test");
  assert.equal(JSON.stringify(request.body).includes("rk_test"), false);
});

test("attributes and tags belong to the step that runs where they are set", async () => {
  const find = tool(
    async (number) => {
      await new Promise((done) => setImmediate(done));
      setAttributes({ number, list: [1], flag: true, plan: "pro", left: undefined, nothing: null });
      setTags("found", `n${number}`);
    },
    { name: "find" },
  );
  const answer = agent(
    async () => {
      setTags("early", "early");
      await Promise.all([find(1), find(2)]);
      setAttributes({ "ratchet.group": "b2b" });
      setTags("late");
    },
    { name: "tagged" },
  );
  setAttributes({ outside: 1 });
  setTags("outside");
  await conversation("c", answer, { tags: ["beta", "eu"] });
  await sent();
  const root = server.span("tagged");
  assert.deepEqual(root.attributes["ratchet.tags"], ["beta", "eu", "early", "late"]);
  assert.deepEqual([root.attributes["ratchet.group"], root.attributes.number], ["b2b", undefined]);
  for (const number of [1, 2]) {
    const { attributes } = server.spans().find(({ attributes }) => attributes.number === number);
    assert.deepEqual(attributes["ratchet.tags"], ["beta", "eu", "found", `n${number}`]);
    assert.deepEqual([attributes.list, attributes.flag, attributes.plan, attributes.nothing], ["[1]", true, "pro", "null"]);
    assert.equal("left" in attributes, false);
  }
});

test("a function keeps its name, its receiver, its arguments and its result", async () => {
  class Shop {
    tax = 2;
    price = tool(function price(amount, times) {
      return amount * times + this.tax;
    });
  }
  const shop = new Shop();
  assert.equal(shop.price(3, 4), 14);
  assert.equal(shop.price.name, "price");
  assert.equal(shop.price.length, 2);
  await sent();
  assert.equal(server.span("price").attributes["gen_ai.tool.call.arguments"], "[3,4]");
});

test("an error reaches the caller as it is, and the trace", async () => {
  const error = new RangeError("too many people");
  const fails = tool(() => {
    throw error;
  }, { name: "sync" });
  const rejects = tool(async () => {
    throw error;
  }, { name: "async" });
  assert.throws(fails, error);
  await assert.rejects(rejects(), error);
  await sent();
  for (const name of ["sync", "async"]) {
    const { status, attributes, events } = server.span(name);
    assert.deepEqual(status, { code: 2, message: "RangeError: too many people" });
    assert.equal(attributes["error.type"], "RangeError");
    assert.equal(events[0].name, "exception");
  }
});

test("a stream is recorded as it is read, and its consumer is no part of it", async () => {
  let outside;
  const words = agent(async function* words(topic) {
    yield "a ";
    await trace("inner", async () => undefined);
    yield topic;
  });
  const numbers = tool(function* numbers() {
    const more = yield 1;
    yield more;
    return "end";
  });
  let text = "";
  for await (const word of words("room")) {
    outside ??= current().traceId;
    text += word;
  }
  assert.equal(text, "a room");
  assert.equal(outside, "");
  const stream = numbers();
  assert.deepEqual([stream.next(), stream.next(7), stream.next()], [
    { value: 1, done: false },
    { value: 7, done: false },
    { value: "end", done: true },
  ]);
  await sent();
  const span = server.span("words");
  assert.equal(span.attributes["ratchet.output"], '["a ","room"]');
  assert.equal(typeof span.attributes["gen_ai.response.time_to_first_chunk"], "number");
  assert.equal(server.span("inner").parentSpanId, span.spanId);
  assert.equal(server.span("numbers").attributes["gen_ai.tool.call.result"], "[1,7]");
});

test("a stream that is left early, or fails, ends its span", async () => {
  const closed = [];
  const count = tool(async function* left() {
    try {
      for (let number = 0; ; number++) yield number;
    } finally {
      closed.push(current().traceId !== "");
    }
  });
  for await (const number of count()) if (number === 2) break;
  const fails = tool(async function* broken() {
    yield 1;
    throw new Error("cut off");
  });
  await assert.rejects(async () => {
    for await (const each of fails()) assert.equal(each, 1);
  }, /cut off/);
  await sent();
  assert.deepEqual(closed, [true]);
  assert.equal(server.span("left").attributes["gen_ai.tool.call.result"], "[0,1,2]");
  assert.equal(server.span("broken").status.message, "Error: cut off");
});

test("a promise with methods of its own keeps them", async () => {
  class Request extends Promise {
    withResponse() {
      return "response";
    }
  }
  const ask = tool((fails) => new Request((done, fail) => (fails ? fail(new Error("no")) : done("yes"))), { name: "ask" });
  assert.equal(ask(false).withResponse(), "response");
  assert.equal(await ask(false), "yes");
  await assert.rejects(ask(true), /no/);
  await sent();
  assert.deepEqual(
    server.spans().map(({ status }) => status.code),
    [0, 0, 2],
  );
});

test("concurrent calls do not mix, and spans of libraries belong to their call", async () => {
  const library = otel.getTracer("some-library", "1.2");
  const answer = agent(
    async (number) => {
      await new Promise((done) => setImmediate(done));
      library.startActiveSpan(`chat ${number}`, (span) => {
        span.setAttributes({ list: ["a", "b"], size: 3, share: 0.5, bad: Infinity });
        span.end();
      });
    },
    { name: "many" },
  );
  await Promise.all([1, 2, 3].map((number) => conversation(`c${number}`, () => answer(number), { user: "u" })));
  await sent();
  for (const number of [1, 2, 3]) {
    const inner = server.span(`chat ${number}`);
    const outer = server.spans().find(({ spanId }) => spanId === inner.parentSpanId);
    assert.equal(outer.attributes["ratchet.input"], String(number));
    assert.equal(inner.scope, "some-library");
    for (const span of [inner, outer]) {
      assert.equal(span.attributes["gen_ai.conversation.id"], `c${number}`);
      assert.equal(span.attributes["user.id"], "u");
    }
    assert.deepEqual(inner.attributes.list, ["a", "b"]);
    assert.deepEqual([inner.attributes.size, inner.attributes.share, inner.attributes.bad], [3, 0.5, "Infinity"]);
  }
});

test("a live tool with side effects acts, and its result can be replayed if it is data", async () => {
  const book = tool(async (room) => ({ booked: room }), { name: "book", sideEffects: true });
  const send = tool(async () => undefined, { name: "send", sideEffects: true });
  const open = tool(() => new Map(), { name: "open", sideEffects: true });
  assert.deepEqual(await book("Elm"), { booked: "Elm" });
  await send();
  open();
  await sent();
  assert.equal(server.span("book").attributes["ratchet.replayable"], true);
  assert.equal(server.span("send").attributes["ratchet.replayable"], true);
  assert.equal(server.span("open").attributes["ratchet.replayable"], undefined);
});

test("feedback names the trace and the conversation that it is given in", async () => {
  let ids;
  await conversation("talk", () =>
    trace("answer", () => {
      ids = current();
      assert.match(feedback({ thumbs: "up" }), /^[0-9a-f]{32}$/);
    }),
  );
  const { traceId } = ids;
  feedback({ rating: 2, scale: [1, 5], traceId: traceId.toUpperCase(), id: "mine" });
  feedback({ correction: { room: "Elm" }, conversationId: "talk", comment: "x".repeat(30_000) });
  feedback({ preference: ["a", { b: 1n }], traceId });
  feedback({ signal: "retry", traceId, value: 0.2 });
  feedback({ comment: "fine", traceId });
  await sent();
  const [thumbs, rating, correction, preference, signal, comment] = server.feedback();
  assert.equal(thumbs.kind, "thumbs");
  assert.equal(thumbs.value, 1);
  assert.deepEqual([thumbs.trace_id, thumbs.span_id, thumbs.conversation_id], [traceId, ids.spanId, "talk"]);
  assert.deepEqual([rating.id, rating.kind, rating.value, rating.trace_id], ["mine", "rating", 0.25, traceId]);
  assert.deepEqual(correction.content, { room: "Elm" });
  assert.equal(correction.comment.length <= 20_000, true);
  assert.deepEqual(preference.content, { chosen: "a", rejected: { b: "1" } });
  assert.deepEqual([signal.kind, signal.value], ["retry", 0.2]);
  assert.deepEqual([comment.kind, comment.value], ["comment", undefined]);
});

test("feedback that says nothing is a warning", async () => {
  const warnings = [];
  const note = ({ message }) => warnings.push(message);
  process.on("warning", note);
  const traceId = "a".repeat(32);
  for (const wrong of [
    {},
    { traceId },
    { thumbs: "up" },
    { thumbs: "up", rating: 1, traceId },
    { rating: 7, scale: [1, 5], traceId },
    { rating: 1, scale: [1, 1], traceId },
    { preference: ["a"], traceId },
  ]) {
    assert.equal(feedback(wrong), "");
  }
  await new Promise((done) => setImmediate(done));
  process.off("warning", note);
  assert.equal(warnings.length >= 6, true);
  assert.match(warnings.join("\n"), /Name a trace, a conversation or a rollout/);
  await sent();
  assert.deepEqual(server.feedback(), []);
});

test("headers for the gateway name the trace and the conversation", () => {
  assert.deepEqual(traceHeaders(), {});
  conversation("talk", () =>
    trace("answer", (step) => {
      assert.deepEqual(traceHeaders(), {
        traceparent: `00-${step.traceId}-${step.spanId}-01`,
        "x-ratchet-conversation": "talk",
      });
    }),
  );
  conversation("line\r\nbreak", () => assert.deepEqual(traceHeaders(), {}));
});

test("texts that are no Unicode are sent", async () => {
  trace("lone \ud800", (step) => step.set("a\ud800", "b\ud800"));
  await sent();
  assert.equal(server.span("lone \ufffd").attributes["a\ufffd"], "b\ufffd");
});

test("requests to the server are no spans", async () => {
  assert.equal(context.active().getValue(Symbol("none")), undefined);
  await trace("only", async () => handle.flush());
  await sent();
  assert.deepEqual(server.spans().map(({ name }) => name), ["only"]);
});

test("a second init returns the same handle, which counts", () => {
  assert.equal(init({ agent: "another" }), handle);
  const { on, agent: name, waiting, dropped, sent: count } = handle.status();
  assert.deepEqual([on, name, waiting, dropped, count > 20], [true, "my-agent", 0, 0, true]);
});

test("a mark takes a function", () => {
  assert.throws(() => agent(undefined), { name: "RatchetError", message: "agent() takes a function, not undefined." });
});
