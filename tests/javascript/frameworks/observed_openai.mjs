// Each way to call a model with a client of `openai`, with and without `observeOpenAI`: what the caller
// sees, which must be the same.
import { init, observeOpenAI, trace } from "agent-ratchet";
import OpenAI from "openai";
import { scripted } from "./scripted.mjs";

const handle = init();
const server = await scripted();
const made = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
const asked = (how, more = {}) => ({
  model: "gpt-4o-mini",
  messages: [
    { role: "system", content: "You tell the weather." },
    { role: "user", content: "How is it?" },
  ],
  metadata: { how },
  ...more,
});
const streamed = (how, more = {}) => asked(how, { stream: true, ...more });
const input = { model: "gpt-4o-mini", input: "How is it?", instructions: "You tell the weather." };

async function all(stream, limit = Infinity) {
  const seen = [];
  for await (const event of stream) {
    seen.push(event);
    if (seen.length >= limit) break;
  }
  return seen;
}

const create = (client, body, options) => client.chat.completions.create(body, options);
const ways = {
  plain: async (client) => create(client, asked("text")),
  stream: async (client) => all(await create(client, streamed("text"))),
  "own usage": async (client) =>
    all(await create(client, streamed("text", { stream_options: { include_usage: true } }))),
  "no usage": async (client) =>
    all(await create(client, streamed("text", { stream_options: { include_usage: false } }))),
  calls: async (client) => all(await create(client, streamed("calls"))),
  two: async (client) => all(await create(client, streamed("two", { n: 2 }))),
  refused: async (client) => create(client, asked("refused")),
  "refused stream": async (client) => create(client, streamed("refused")),
  cut: async (client) => all(await create(client, streamed("cut"))),
  error: async (client) => all(await create(client, streamed("error"))),
  left: async (client) => all(await create(client, streamed("text")), 2),
  "left at its end": async (client) => all(await create(client, streamed("text")), 4),
  aborted: async (client) => {
    const stream = await create(client, streamed("endless"));
    const seen = [];
    for await (const event of stream) {
      seen.push(event);
      if (seen.length === 2) stream.controller.abort();
    }
    return seen;
  },
  "never read": async (client) => {
    const stream = await create(client, streamed("endless"));
    stream.controller.abort();
    return typeof stream.tee;
  },
  "by signal": async (client) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 50);
    return create(client, asked("silent"), { signal: controller.signal });
  },
  late: async (client) => create(client, asked("silent"), { timeout: 100 }),
  helper: async (client) => {
    const stream = client.chat.completions.stream(asked("text"));
    const seen = [];
    stream.on("chunk", (chunk) => seen.push(chunk));
    return [seen, (await stream.finalChatCompletion()).choices, stream.messages];
  },
  "with response": async (client) => {
    const { data, response } = await create(client, streamed("text")).withResponse();
    return [response.status, await all(data)];
  },
  raw: async (client) => (await create(client, asked("text")).asResponse()).text(),
  "raw stream": async (client) => (await create(client, streamed("text")).asResponse()).text(),
  tee: async (client) => {
    const [one, other] = (await create(client, streamed("text"))).tee();
    return [await all(one), await all(other)];
  },
  readable: async (client) => new Response((await create(client, streamed("text"))).toReadableStream()).text(),
  "other options": async (client) => create(client.withOptions({ timeout: 9_000 }), asked("text")),
  response: async (client) => client.responses.create(input),
  "response stream": async (client) => all(await client.responses.create({ ...input, stream: true })),
  "response left": async (client) => all(await client.responses.create({ ...input, stream: true }), 3),
  "response refused": async (client) => client.responses.create({ ...input, metadata: { how: "refused" } }),
  "raw response": async (client) => (await client.responses.create(input).asResponse()).text(),
  embedding: async (client) => client.embeddings.create({ model: "text-embedding-3-small", input: ["a", "b"] }),
  models: async (client) => typeof client.models.list,
  old: async (client) => all(await create(client, streamed("old", { model: "old" }))),
  "after old": async (client) => all(await create(client, streamed("old", { model: "old" }))),
  strict: async (client) => all(await create(client, streamed("strict", { model: "strict" }))),
  bad: async (client) => all(await create(client, streamed("bad"))),
  "bad at first": async (client) => all(await create(client, streamed("bad", { model: "another" }))),
};

const differing = {};
const client = observeOpenAI(made());
for (const [way, run] of Object.entries(ways)) {
  const seen = await trace(way, () => run(client)).catch((error) => `${error.constructor.name}: ${error.message}`);
  const plain = await run(made()).catch((error) => `${error.constructor.name}: ${error.message}`);
  if (JSON.stringify(seen) !== JSON.stringify(plain)) differing[way] = { seen, plain };
}
const same = observeOpenAI(client) === client && client instanceof OpenAI;
// A call that fails where nobody waits for it still ends the process as it would.
const unhandled = await new Promise((resolve) => {
  process.once("unhandledRejection", (error) => resolve(error.status));
  void create(client, asked("refused")).then(() => undefined);
});
const requests = {};
for (const { model, metadata, stream_options: options } of server.requests) {
  if (/old|strict|bad/.test(metadata?.how)) (requests[`${metadata.how} ${model}`] ??= []).push(options !== undefined);
}
console.log(JSON.stringify({ differing, same, unhandled, requests, sent: await handle.flush() }));
server.close();
