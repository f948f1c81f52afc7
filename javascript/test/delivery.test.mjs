import assert from "node:assert/strict";
import { test } from "node:test";
import { collector, run } from "./collector.mjs";

const PROGRAM = `
  import { agent, feedback, init } from "agent-ratchet";
  const handle = init({ agent: "a" });
  const answer = agent(async (question) => question.toUpperCase(), { name: "answer" });
`;

const traffic = ({ url }) => url.includes("/traffic");

async function serving(test, answer) {
  const server = await collector(answer);
  test.after(() => server.close());
  return server;
}

const endings = {
  "has nothing left to do": "await answer('x');",
  "calls process.exit": "await answer('x'); process.exit(0);",
  "throws": "await answer('x'); throw new Error('the end');",
  "rejects": "await answer('x'); Promise.reject(new Error('the end'));",
};
for (const [ending, source] of Object.entries(endings)) {
  test(`what was recorded is sent when a program ${ending}`, async (t) => {
    const server = await serving(t);
    const { code } = await run(t, PROGRAM + source, { RATCHET_URL: server.url, RATCHET_KEY: "rk_1" });
    assert.equal(code, ending === "throws" || ending === "rejects" ? 1 : 0);
    assert.equal(server.span("answer").attributes["ratchet.output"], '"X"');
    assert.equal(server.requests.find(({ url }) => url === "/v1/traces").headers.authorization, "Bearer rk_1");
  });
}

test("a program that is killed has sent what is older than a moment", async (t) => {
  const server = await serving(t);
  const source = `${PROGRAM}
    await answer("x");
    while (handle.status().sent === 0) await new Promise((done) => setTimeout(done, 10));
    console.log("sent");
    setInterval(() => {}, 1000);`;
  const { code } = await run(t, source, { RATCHET_URL: server.url }, { signal: "SIGKILL" });
  assert.equal(code, "SIGKILL");
  assert.equal(server.spans().length, 1);
});

test("a server that never answers does not keep a program from its end for long", async (t) => {
  const server = await serving(t, () => new Promise(() => undefined));
  const { code, out } = await run(t, `${PROGRAM} await answer("x"); console.log("done"); process.exit(0);`, {
    RATCHET_URL: server.url,
  });
  assert.equal(code, 0);
  assert.equal(out, "done\n");
});

test("what a server could not store is sent again, in order and once", async (t) => {
  let failures = 0;
  const server = await serving(t, (request) =>
    request.url === "/v1/traces" && failures++ < 1 ? { status: 503 } : {},
  );
  const source = `${PROGRAM}
    for (let number = 0; number < 700; number++) await answer(String(number));
    await handle.flush(); // which fails
    console.log(await handle.flush(), JSON.stringify(handle.status()));`;
  const { out } = await run(t, source, { RATCHET_URL: server.url });
  assert.match(out, /^true .*"sent":700,"waiting":0,"dropped":0/);
  const inputs = server.spans().map(({ attributes }) => attributes["ratchet.input"]);
  assert.deepEqual(inputs, Array.from({ length: 700 }, (_, number) => `"${number}"`));
});

test("a batch that is too large is sent in halves, and a span that is too large is dropped", async (t) => {
  const big = ({ body }) => JSON.stringify(body).includes("HUGE");
  const server = await serving(t, (request) => {
    if (request.url !== "/v1/traces") return {};
    const { length } = request.body.resourceSpans[0].scopeSpans[0].spans;
    return length > 10 || big(request) ? { status: 413 } : {};
  });
  const source = `${PROGRAM}
    for (let number = 0; number < 40; number++) await answer(number === 7 ? "huge" : "x");
    console.log(await handle.flush(), JSON.stringify(handle.status()));`;
  const { out } = await run(t, source, { RATCHET_URL: server.url });
  assert.match(out, /^true .*"sent":39,"waiting":0,"dropped":1/);
});

test("what waits is bounded, and the oldest goes first", async (t) => {
  const server = await serving(t, (request) => (request.headers["x-open"] || traffic(request) ? {} : { status: 503 }));
  const source = `${PROGRAM}
    for (let number = 0; number < 25_000; number++) answer(String(number));
    await answer("the last");
    const { waiting, dropped } = handle.status();
    console.log(JSON.stringify([waiting, dropped]));
    process.exit(0);`;
  const { out } = await run(t, source, { RATCHET_URL: server.url });
  const [waiting, dropped] = JSON.parse(out);
  assert.equal(waiting <= 20_000 && waiting >= 19_000, true, out);
  assert.equal(waiting + dropped, 25_001);
});

const mistakes = {
  "no server": [{}, /No server is named/],
  "no address": [{ RATCHET_URL: "server:1" }, /address is not usable: "server:1"/],
  "a password in the address": [{ RATCHET_URL: "http://me:hush@server" }, /contains a password/],
  "a key with spaces": [{ RATCHET_URL: "http://127.0.0.1:1", RATCHET_KEY: "rk hush" }, /The key contains spaces/],
};
for (const [mistake, [environment, said]] of Object.entries(mistakes)) {
  test(`${mistake}: one warning, and the agent runs unrecorded`, async (t) => {
    const source = `${PROGRAM} init(); console.log(await answer("x"), handle.status().on, feedback({ thumbs: "up" }) === "");`;
    const { code, out, err } = await run(t, source, environment);
    assert.deepEqual([code, out], [0, "X false true\n"]);
    assert.match(err, said);
    assert.equal(err.includes("hush"), false);
  });
}

test("RATCHET_DISABLED switches it off", async (t) => {
  const { out, err } = await run(t, `${PROGRAM} console.log(await answer("x"), handle.status().on);`, {
    RATCHET_DISABLED: "1",
    RATCHET_URL: "http://127.0.0.1:1",
  });
  assert.deepEqual([out, err], ["X false\n", ""]);
});

test("after shutdown nothing is recorded, and init may follow", async (t) => {
  const server = await serving(t);
  const source = `${PROGRAM}
    await answer("x");
    await handle.shutdown();
    await answer("y");
    init({ agent: "b" });
    await answer("z");`;
  await run(t, source, { RATCHET_URL: server.url });
  assert.deepEqual(
    server.spans().map(({ attributes, resource }) => [attributes["ratchet.input"], resource["service.name"]]),
    [['"x"', "a"], ['"z"', "b"]],
  );
});

test("contents stay away on request", async (t) => {
  const server = await serving(t);
  await run(t, PROGRAM.replace('{ agent: "a" }', "{ captureContent: false }") + 'await answer("x");', {
    RATCHET_URL: server.url,
    RATCHET_AGENT: "named by the environment",
  });
  const { attributes, resource } = server.span("answer");
  assert.deepEqual(Object.keys(attributes), ["gen_ai.operation.name", "gen_ai.agent.name"]);
  assert.equal(resource["service.name"], "named-by-the-environment");
});

test("it works with require, and both ways share one state", async (t) => {
  const server = await serving(t);
  const source = `
    const { init, agent } = require("agent-ratchet");
    init({ agent: "a" });
    import("agent-ratchet").then(async (module) => {
      console.log(module.agent === agent);
      await module.trace("outer", () => agent(async () => 1, { name: "inner" })());
    });`;
  const { out } = await run(t, source, { RATCHET_URL: server.url }, { name: "program.cjs" });
  assert.equal(out, "true\n");
  assert.equal(server.span("inner").parentSpanId, server.span("outer").spanId);
});
