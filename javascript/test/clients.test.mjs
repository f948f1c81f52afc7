// Clients of providers, as far as no provider's package is needed; see tests/javascript/test_clients.py.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { init, observeAnthropic, observeOpenAI } from "agent-ratchet";
import { collector } from "./collector.mjs";

let server, handle;

before(async () => {
  server = await collector(({ url }) => (url.includes("/traffic") ? { status: 404 } : {}));
  handle = init({ agent: "a", server: server.url, redact: () => "x" });
});
beforeEach(() => server.requests.splice(0));
after(async () => {
  await handle.shutdown();
  server.close();
});

/** What the clients' promises are like: they parse when they are awaited. */
class Pending extends Promise {
  static get [Symbol.species]() {
    return Promise;
  }
  static of(response, parse) {
    const pending = new Pending((resolve) => resolve());
    return Object.assign(pending, { responsePromise: response, parseResponse: parse });
  }
  then(done, failed) {
    return this.responsePromise.then((response) => this.parseResponse(response)).then(done, failed);
  }
  asResponse() {
    return this.responsePromise;
  }
}

test("a call keeps its model and its usage where all its texts are redacted", async () => {
  const answer = {
    id: "1",
    model: "gpt-4o-mini",
    choices: [{ index: 0, message: { content: "secret" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1000, completion_tokens: 200, prompt_tokens_details: { cached_tokens: 800 } },
  };
  const client = observeOpenAI({ post: () => Pending.of(Promise.resolve(answer), async (found) => found) });
  const body = { model: "gpt-4o", messages: [{ role: "user", content: "secret" }] };
  assert.equal(await client.post("/chat/completions", { body }), answer);
  await handle.flush();
  const [{ attributes, name }] = server.spans();
  assert.equal(JSON.stringify(server.requests).includes("secret"), false);
  assert.equal(name, "x");
  assert.deepEqual(
    [attributes["ratchet.input"], attributes["ratchet.output"], attributes["gen_ai.request.model"]],
    ["x", "x", "gpt-4o"],
  );
  assert.deepEqual(
    [attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.cache_read.input_tokens"]],
    [1000, 800],
  );
});

test("a request that is too large to be recorded whole keeps its first and its newest messages", async (t) => {
  const server = await collector();
  t.after(() => server.close());
  await handle.shutdown();
  handle = init({ agent: "a", server: server.url });
  const client = observeAnthropic({ post: () => Pending.of(Promise.resolve({}), async () => ({ content: [] })) });
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "A".repeat(3_000_000) } };
  const messages = Array.from({ length: 500 }, (_, number) => ({
    role: "user",
    content: `${number} ${"word ".repeat(400)}`,
  }));
  messages.push({ role: "user", content: [image, { type: "text", text: "the last" }] });
  const body = { model: "claude", system: "Be kind.", messages };
  await client.post("/v1/messages?beta=true", { body });
  assert.equal(messages.length, 501);
  await handle.flush();
  const text = server.spans()[0].attributes["ratchet.input"];
  assert.equal(text.length < 250_000, true, String(text.length));
  const kept = JSON.parse(text);
  assert.equal(kept.system, "Be kind.");
  assert.match(kept.messages[0].content, /^0 /);
  assert.match(kept.messages[1].content, /^\d+ entries are left out\.$/);
  assert.equal(kept.messages.at(-1).content[1].text, "the last");
  assert.equal(kept.messages.at(-1).content[0].source.data, "… [3000000 more characters]");
  assert.equal(kept.messages.length > 100, true);
});

test("what is no client is refused, or named in a warning, and other requests are not recorded", async () => {
  assert.throws(() => observeOpenAI(undefined), { name: "RatchetError", message: /can be observed, not undefined/ });
  const warned = new Promise((resolve) => process.once("warning", resolve));
  const other = { chat: () => 1 };
  assert.equal(observeOpenAI(other), other);
  assert.match((await warned).message, /none of the package openai/);
  const client = observeOpenAI({ post: async () => "uploaded" });
  assert.equal(await client.post("/files", { body: {} }), "uploaded");
  await handle.flush();
  assert.deepEqual(server.spans(), []);
});
