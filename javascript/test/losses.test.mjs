// Whatever becomes of spans, their number is right, and a loss is said once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { agent, feedback, init } from "agent-ratchet";
import { collector, run } from "./collector.mjs";

const PROGRAM = `
  import { agent, feedback, init } from "agent-ratchet";
  const handle = init({ agent: "a" });
  const answer = agent(async (question) => question.toUpperCase(), { name: "answer" });
  const told = (more) => console.log(JSON.stringify({ ...handle.status(), ...more }));
`;
const TEN = `${PROGRAM}
  for (let number = 0; number < 10; number++) await answer("x");
  feedback({ thumbs: "up", traceId: "a".repeat(32) });
  await handle.flush(300);
  told();`;

const traces = ({ url }) => url === "/v1/traces";
const to = (answer) => (request) => (request.url.includes("/traffic") ? { status: 404 } : answer);

/** What the server answers; how many of the 11 items wait after a flush, and are lost then; what is said. */
const ways = {
  "nobody listens": [
    undefined,
    [11, 0],
    /10 spans and 1 statement of feedback are lost: .*ECONNREFUSED.*Start `ratchet serve` there, or set RATCHET_URL/,
  ],
  "the key is wrong": [
    to({ status: 401 }),
    [11, 0],
    /refuses the key \(401\)\. Set RATCHET_KEY to a key of the scope `ingest`/,
  ],
  "the key has no right": [to({ status: 403 }), [11, 0], /refuses the key \(403\)/],
  "another server has no such path": [
    to({ status: 404, text: "<html>" }),
    [11, 0],
    /is no Ratchet server: it answers .* with 404\. Set RATCHET_URL/,
  ],
  "a web page answers": [
    to({ text: "<html>Welcome</html>", headers: { "content-type": "text/html" } }),
    [11, 0],
    /is no Ratchet server: .* 200, but not as Ratchet does/,
  ],
  "an empty page answers": [to({ text: "" }), [11, 0], /is no Ratchet server/],
  "it is redirected": [to({ status: 307, headers: { location: "/login" } }), [11, 0], /is no Ratchet server: .* 307/],
  "the server fails": [
    to({ status: 503, text: "out of disk" }),
    [11, 0],
    /answers 503: out of disk\. Its log says why/,
  ],
  "the server is overrun": [to({ status: 429 }), [11, 0], /answers 429/],
  "the answer never ends": [to({ text: "{", cut: true }), [11, 0], /does not answer in time|not stored .* in time/],
  "the server refuses them": [
    to({ status: 422, body: { detail: "no agent" } }),
    [0, 11],
    /refuses what was sent \(422\): \{"detail":"no agent"\}/,
  ],
  "each span is too large": [
    (request) => (traces(request) ? { status: 413 } : {}),
    [0, 10],
    /10 spans are lost: .*\(413\).*Record less/,
  ],
  "some are rejected": [
    (request) =>
      traces(request) ? { body: { partialSuccess: { rejectedSpans: "3", errorMessage: "bad ids." } } } : {},
    [0, 3],
    /3 spans are lost: .* rejected them: bad ids\.$/m,
  ],
  "other JSON answers": [
    (request) => (traces(request) ? { body: { ok: true } } : {}),
    [10, 0],
    /10 spans are lost: .*no Ratchet server/,
  ],
};
/** Ways that are tried with `process.exit` too, which sends in its own way. */
const abrupt = [
  "nobody listens",
  "a web page answers",
  "the answer never ends",
  "each span is too large",
  "some are rejected",
];

for (const [way, [answer, [waiting, dropped], said]] of Object.entries(ways)) {
  for (const ending of abrupt.includes(way) ? ["", "process.exit(0);"] : [""]) {
    test(`where ${way}, all is counted and one sentence says what is lost${ending && " at process.exit"}`, async (t) => {
      const server = await collector(answer);
      if (answer) t.after(() => server.close());
      else server.close();
      const { code, out, err } = await run(t, TEN + ending, { RATCHET_URL: server.url, RATCHET_KEY: "rk_secret" });
      const status = JSON.parse(out);
      assert.deepEqual([status.waiting, status.dropped, status.sent], [waiting, dropped, 11 - waiting - dropped]);
      assert.equal(code, 0);
      assert.equal(err.match(/RatchetWarning/g).length, 1, err);
      assert.match(err, said);
      assert.equal(err.includes(server.url), true);
      assert.equal(err.includes("rk_secret"), false);
    });
  }
}

test("whatever a server answers, by turns, each item is counted once, and as the server has it", async (t) => {
  let seed = 36;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  let stored = 0;
  let isWell = false;
  const answers = [
    { status: 413 },
    { status: 422 },
    { status: 401 },
    { status: 404 },
    { status: 503 },
    { text: "<html>" },
  ];
  const server = await collector((request) => {
    if (request.url.includes("/traffic")) return { status: 404 };
    const count = traces(request)
      ? request.body.resourceSpans[0].scopeSpans[0].spans.length
      : request.body.feedback.length;
    if (!isWell && random() < 0.6) return answers[Math.floor(random() * answers.length)];
    const rejected = traces(request) && !isWell ? Math.floor(random() * (count + 3)) : 0;
    stored += Math.max(0, count - rejected);
    return { body: rejected ? { partialSuccess: { rejectedSpans: rejected } } : {} };
  });
  t.after(() => server.close());
  process.on("warning", () => undefined); // of what is lost here
  const handle = init({ agent: "a", server: server.url });
  const answer = agent((text) => text, { name: "answer" });
  let made = 0;
  for (let round = 0; round < 60; round++) {
    for (let left = Math.floor(random() * 300); left > 0; left--, made++) answer("x".repeat(left));
    if (random() < 0.3) made += feedback({ thumbs: "up", traceId: "a".repeat(32) }) ? 1 : 0;
    if (random() < 0.7) await handle.flush(200);
    const { sent, waiting, dropped } = handle.status();
    assert.equal(sent + waiting + dropped, made);
  }
  isWell = true;
  assert.equal(await handle.flush(), true);
  const { sent, waiting, dropped } = handle.status();
  assert.deepEqual([sent, waiting, sent + dropped], [stored, 0, made]);
  assert.equal(sent > 1_000 && dropped > 100, true);
  await handle.shutdown();
});

test("11,000 spans for a server that is not there are 11,000 lost spans, also after shutdown", async (t) => {
  const server = await collector();
  server.close();
  const source = `${PROGRAM}
    for (let number = 0; number < 11_000; number++) await answer("x");
    await handle.flush(300);
    told();
    await handle.shutdown(100);
    told();`;
  const { out, err } = await run(t, source, { RATCHET_URL: server.url });
  const [before, after] = out.trim().split("\n").map(JSON.parse);
  assert.deepEqual([before.sent, before.waiting, before.dropped], [0, 11_000, 0]);
  assert.deepEqual([after.sent, after.waiting, after.dropped], [0, 0, 11_000]);
  assert.equal(err.match(/11,000 spans are lost/g).length, 1);
  assert.equal(err.match(/RatchetWarning/g).length, 1);
});

test("what is stored at last is no loss, and nothing is said", async (t) => {
  let failures = 0;
  const server = await collector((request) => (traces(request) && failures++ < 1 ? { status: 503 } : {}));
  t.after(() => server.close());
  const { err } = await run(t, TEN, { RATCHET_URL: server.url });
  assert.equal(err, "");
  assert.equal(server.spans().length, 10);
});

test("spans that overflow, and those that follow, are all counted", async (t) => {
  const server = await collector(to({ status: 503 }));
  t.after(() => server.close());
  const source = `${PROGRAM}
    for (let number = 0; number < 25_000; number++) answer(String(number));
    await handle.flush(300);
    for (let number = 0; number < 1_200; number++) feedback({ thumbs: "up", traceId: "a".repeat(32) });
    told();
    process.exit(0);`;
  const { out, err } = await run(t, source, { RATCHET_URL: server.url });
  const { sent, waiting, dropped } = JSON.parse(out);
  assert.equal(sent + waiting + dropped, 26_200);
  assert.equal(waiting <= 21_000, true, out);
  assert.match(err, /25,000 spans and 1,200 statements of feedback are lost/);
  assert.equal(err.match(/RatchetWarning/g).length, 1);
});

test("trouble that lasts is said while the process runs, and what it cost at its end", async (t) => {
  const server = await collector(to({ status: 503 }));
  t.after(() => server.close());
  const source = `import { mock } from "node:test";
    mock.timers.enable({ apis: ["setTimeout"] });
    ${PROGRAM}
    await answer("x");
    const flushed = handle.flush();
    while (!(await Promise.race([flushed.then(() => true), new Promise((done) => setImmediate(done, false))])));
    mock.timers.tick(9_000);
    process.once("warning", ({ message }) => console.log(message));
    mock.timers.tick(2_000);
    await new Promise(setImmediate);
    process.exit(0);`;
  const { out, err } = await run(t, source, { RATCHET_URL: server.url });
  assert.match(out, /^1 span waits: .*answers 503/);
  assert.match(err, /1 span is lost: .*answers 503/);
});

test("a span that cannot be written is lost alone", async (t) => {
  const server = await collector();
  t.after(() => server.close());
  const source = `import { trace } from "@opentelemetry/api";
    ${PROGRAM}
    for (let number = 0; number < 10; number++) await answer("x");
    trace.getTracer("t").startSpan("odd", { attributes: { list: [1n] } }).end();
    const span = trace.getTracer("t").startSpan("worse");
    span.attributes.size = 1n;
    span.attributes.list = [1, 2n];
    span.end();
    console.log(await handle.flush(), JSON.stringify(handle.status()));`;
  const { code, out, err } = await run(t, source, { RATCHET_URL: server.url });
  assert.equal(code, 0);
  const { sent, waiting, dropped } = JSON.parse(out.slice(out.indexOf("{")));
  assert.equal(sent + waiting + dropped, 12);
  assert.equal(waiting, 0);
  assert.equal(server.spans().filter(({ name }) => name === "answer").length, 10);
  assert.equal(dropped, 1);
  assert.match(err, /1 span is lost: a span cannot be written/);
});
