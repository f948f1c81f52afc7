// A signal ends a process as it would without this package, and what it recorded is sent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { collector, run } from "./collector.mjs";

const PROGRAM = `
  import { agent, init } from "agent-ratchet";
  const handle = init({ agent: "a" });
  const answer = agent(async (question) => question.toUpperCase(), { name: "answer" });
  await answer("x");
  const forever = setInterval(() => {}, 1000);
`;
const READY = `console.log("ready");`;

/** Runs a program that gets a signal as soon as it is ready. */
async function signalled(t, source, signal = "SIGTERM", answer = undefined) {
  const server = await collector(answer);
  t.after(() => server.close());
  return { server, ...(await run(t, PROGRAM + source, { RATCHET_URL: server.url }, { signal })) };
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  test(`${signal} ends the process by itself, after what was recorded is sent`, async (t) => {
    const { server, code, err } = await signalled(t, READY, signal);
    assert.equal(code, signal);
    assert.deepEqual(
      server.spans().map(({ name }) => name),
      ["answer"],
    );
    assert.equal(err, "");
  });
}

const handlers = {
  "that exits with its own code": [`process.on("SIGTERM", () => process.exit(7));`, 7],
  "that comes once, and cleans up first": [
    `process.once("SIGTERM", async () => {
       await new Promise((done) => setTimeout(done, 100));
       await answer("cleaned");
       process.exit(7);
     });`,
    7,
    ["answer", "answer"],
  ],
  "that lets the process end by itself": [`process.on("SIGTERM", () => clearInterval(forever));`, 0],
  "that ends it by the signal, if it is the only one": [
    `const last = () => {
       if (process.listeners("SIGTERM").length !== 1) return;
       process.off("SIGTERM", last);
       process.kill(process.pid, "SIGTERM");
     };
     process.on("SIGTERM", last);`,
    "SIGTERM",
  ],
};
for (const [handler, [source, expected, names = ["answer"]]] of Object.entries(handlers)) {
  test(`a handler of the program's own decides: one ${handler}`, async (t) => {
    const { server, code } = await signalled(t, source + READY);
    assert.equal(code, expected);
    assert.deepEqual(
      server.spans().map(({ name }) => name),
      names,
    );
  });
}

test("a handler that goes on meets no end, and the next signal is sent too", async (t) => {
  const { server, code } = await signalled(
    t,
    `let count = 0;
     process.on("SIGTERM", async () => {
       if (++count === 2) return process.exit(3);
       await answer("on");
       setTimeout(() => process.kill(process.pid, "SIGTERM"), 50);
     });` + READY,
  );
  assert.equal(code, 3);
  assert.equal(server.spans().length, 2);
});

test("a server that never answers delays the end by little, and the loss is said", async (t) => {
  const silent = (request) => (request.url === "/v1/traces" ? new Promise(() => undefined) : {});
  const { code, err, ms } = await signalled(t, READY, "SIGTERM", silent);
  assert.equal(code, "SIGTERM");
  assert.match(err, /1 span is lost: .* does not answer in time/);
  assert.equal(ms < 4_000, true, String(ms));
});

test("two copies of the package do not keep a process alive", async (t) => {
  const { server, code } = await signalled(
    t,
    `import { createRequire } from "node:module";
     const require = createRequire(import.meta.url);
     require("agent-ratchet");
     for (const path of Object.keys(require.cache)) if (/agent-ratchet|dist/.test(path)) delete require.cache[path];
     require("agent-ratchet").init({ agent: "b" });` + READY,
  );
  assert.equal(code, "SIGTERM");
  assert.equal(server.spans().length, 1);
});

test("after shutdown the process has no listener left", async (t) => {
  const { code, out } = await signalled(
    t,
    `await handle.shutdown();
     console.log(["SIGTERM", "SIGINT"].map((name) => process.listenerCount(name)).join());`,
  );
  assert.equal(code, "SIGTERM");
  assert.equal(out, "0,0\n");
});
