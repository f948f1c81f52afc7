import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { unitDigest } from "../dist/arms.js";
import { Chooser } from "../dist/chooser.js";
import { Follower } from "../dist/follower.js";
import { Connection } from "../dist/http.js";
import { resolve } from "../dist/resources.js";
import { bundleName } from "../dist/settings.js";
import { collector, folderFor, run } from "./collector.mjs";

const RELEASED = {
  agent: "a",
  release_id: "r1",
  release: { system: { type: "prompt", text: "Released.", engine: "f-string" } },
  standing: ["r1", ""],
  split: null,
  candidate: {},
};

const PROGRAM = `
  import { agent, init, prompt, trace } from "agent-ratchet";
  const handle = init({ agent: "a" });
  const system = prompt("system", "Own.");
`;

async function served(test, versions = RELEASED) {
  const server = await collector((request) => {
    if (!request.url.includes("/traffic")) return {};
    if (request.headers["if-none-match"] === '"t1"') return { status: 304, headers: { etag: '"t1"' } };
    return { body: versions, headers: { etag: '"t1"' } };
  });
  test.after(() => server.close());
  return server;
}

test("a release replaces the source's text, and its calls say so", async (t) => {
  const server = await served(t);
  const source = `${PROGRAM}
    console.log(system.text);
    await handle.ready();
    const answer = agent(async () => trace("inner", () => system.text), { name: "answer" });
    console.log(await answer(), system.text);`;
  const { out } = await run(t, source, { RATCHET_URL: server.url, RATCHET_KEY: "rk_1" });
  assert.equal(out, "Own.\nReleased. Released.\n");
  assert.equal(server.span("answer").attributes["ratchet.candidate_id"], "r1");
  assert.equal(server.span("inner").attributes["ratchet.candidate_id"], undefined);
  const [asked] = server.requests;
  assert.deepEqual([asked.url, asked.headers.authorization], ["/v1/agents/a/traffic", "Bearer rk_1"]);
});

test("a call keeps the version that it began with to its end", async (t) => {
  const server = await served(t);
  const source = `${PROGRAM}
    const long = agent(async () => {
      const before = system.text;
      await handle.ready();
      return [before, system.text, await trace("inner", async () => system.text)];
    }, { name: "long" });
    console.log((await long()).join(" "), system.text);`;
  const { out } = await run(t, source, { RATCHET_URL: server.url });
  assert.equal(out, "Own. Own. Own. Released.\n");
});

test("a canary's arm is constant for a conversation, and stands in the span", async (t) => {
  const split = { agent: "a", experiment_id: "e1", candidate_id: "c1", enrolled: 1 };
  const candidate = { system: { type: "prompt", text: "Candidate.", engine: "f-string" } };
  const server = await served(t, { ...RELEASED, split, candidate });
  const source = `import { conversation } from "agent-ratchet"; ${PROGRAM}
    await handle.ready();
    const answer = agent(async () => system.text, { name: "answer" });
    for (let number = 0; number < 40; number++) await conversation("c" + number % 20, () => answer());`;
  await run(t, source, { RATCHET_URL: server.url });
  const arms = new Map();
  const starts = server.spans().filter(({ name }) => name === "ratchet.start");
  const calls = server.spans().filter(({ name }) => name === "answer");
  assert.deepEqual(new Set(starts.map((span) => span.parentSpanId)), new Set(calls.map((span) => span.spanId)));
  for (const { attributes } of calls) {
    const arm = attributes["ratchet.arm"];
    const unit = attributes["ratchet.unit"];
    assert.equal(attributes["ratchet.output"], arm === "candidate" ? '"Candidate."' : '"Released."');
    assert.equal(unitDigest(attributes["gen_ai.conversation.id"]), unit);
    assert.equal(arms.get(unit) ?? arm, arm);
    arms.set(unit, arm);
  }
  assert.deepEqual(new Set(arms.values()), new Set(["candidate", "baseline"]));
});

test("a call in a canary is told before it ends, and says which version is deployed", async (t) => {
  const split = { agent: "a", experiment_id: "e1", candidate_id: "c1", enrolled: 1 };
  const server = await served(t, { ...RELEASED, split });
  const source = `${PROGRAM}
    await handle.ready();
    const answer = agent(async () => {
      await new Promise((done) => setTimeout(done, 1_000));
      process.kill(process.pid, "SIGKILL");
    }, { name: "answer" });
    await answer();`;
  await run(t, source, { RATCHET_URL: server.url, RATCHET_RELEASE: "v2" });
  const [start, ...others] = server.spans();
  assert.deepEqual([start.name, others.length], ["ratchet.start", 0]);
  assert.equal(start.attributes["ratchet.experiment_id"], "e1");
  assert.match(start.attributes["ratchet.arm"], /^(baseline|candidate)$/);
  assert.equal(start.attributes["ratchet.release"], "v2");
});

for (const [way, environment, options] of [
  ["releases: false", {}, "{ agent: 'a', releases: false }"],
  ["RATCHET_OWN_SOURCE", { RATCHET_OWN_SOURCE: "1" }, "{ agent: 'a' }"],
]) {
  test(`${way} runs the agent's own source`, async (t) => {
    const server = await served(t);
    const source = `${PROGRAM.replace('{ agent: "a" }', options)} await handle.ready(); console.log(system.text);`;
    const { out } = await run(t, source, { RATCHET_URL: server.url, ...environment });
    assert.equal(out, "Own.\n");
    assert.deepEqual(server.requests, []);
  });
}

test("reading releases neither delays the agent nor keeps it alive", async (t) => {
  const server = await collector(() => new Promise(() => undefined));
  t.after(() => server.close());
  const { out, code } = await run(t, `${PROGRAM} console.log(system.text);`, { RATCHET_URL: server.url });
  assert.deepEqual([out, code], ["Own.\n", 0]);
});

/** A follower of its own, whose readings the test starts. */
function following(test, server, state) {
  const settings = { agent: "a", server, key: "", state };
  const connection = new Connection(server, "");
  const chooser = new Chooser();
  const follower = new Follower(settings, connection, chooser);
  test.after(() => {
    follower.close();
    connection.close();
  });
  return { follower, bundle: join(state, "live", bundleName(settings)) };
}

test("the release that was read last holds while the server is away", async (t) => {
  const server = await served(t);
  const state = join(folderFor(t), "state");
  const first = following(t, server.url, state);
  await first.follower.first;
  first.follower.close();
  assert.equal(resolve("system"), undefined);
  assert.equal(statSync(first.bundle).mode & 0o77, 0);
  assert.equal(readFileSync(join(state, ".gitignore"), "utf8"), "*\n");
  server.close();
  const second = following(t, server.url, state);
  assert.equal(resolve("system").text, "Released.");
  await second.follower.first;
  assert.equal(resolve("system").text, "Released.");
});

test("a damaged file of releases is passed over", async (t) => {
  const state = folderFor(t);
  const name = bundleName({ agent: "a", server: "http://127.0.0.1:1" });
  mkdirSync(join(state, "live"));
  const body = JSON.stringify(RELEASED);
  const hash = createHash("sha256").update(body).digest("hex");
  for (const text of ["", "no hash", `${hash}\n${body.replace("Released", "Replaced")}`, `${hash}\n{`]) {
    writeFileSync(join(state, "live", name), text);
    const { follower } = following(t, "http://127.0.0.1:1", state);
    assert.equal(resolve("system"), undefined, text);
    await follower.first;
    follower.close();
  }
});

test("an agent that was never released leaves no file", async (t) => {
  const server = await served(t, { ...RELEASED, release_id: "", release: {}, standing: [""] });
  const state = join(folderFor(t), "state");
  await following(t, server.url, state).follower.first;
  assert.equal(existsSync(state), false);
});

test("the file own-source switches releases off", async (t) => {
  const server = await served(t);
  const state = folderFor(t);
  writeFileSync(join(state, "own-source"), "");
  await following(t, server.url, state).follower.first;
  assert.equal(resolve("system"), undefined);
});

for (const answer of [{ status: 500 }, { status: 401 }, { status: 200, body: { release: 1 } }, { status: 302 }]) {
  test(`an answer that is no release is passed over: ${JSON.stringify(answer)}`, async (t) => {
    const server = await collector(() => answer);
    t.after(() => server.close());
    const state = join(folderFor(t), "state");
    await following(t, server.url, state).follower.first;
    assert.equal(resolve("system"), undefined);
    assert.equal(existsSync(state), false);
  });
}
