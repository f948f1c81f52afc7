// Ways to call a model with a client of `@anthropic-ai/sdk`, with and without `observeAnthropic`.
import { init, observeAnthropic, trace } from "agent-ratchet";
import Anthropic from "@anthropic-ai/sdk";
import { scripted } from "./scripted.mjs";

const handle = init();
const server = await scripted();
const made = () => new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
const asked = (how = "text") => ({
  model: "claude-3-5-haiku-latest",
  max_tokens: 100,
  system: "You tell the weather.",
  messages: [{ role: "user", content: "How is it?" }],
  metadata: { how },
});

async function all(stream, limit = Infinity) {
  const seen = [];
  for await (const event of stream) {
    seen.push(event);
    if (seen.length >= limit) break;
  }
  return seen;
}

const ways = {
  plain: async (client) => client.messages.create(asked()),
  stream: async (client) => all(await client.messages.create({ ...asked(), stream: true })),
  left: async (client) => all(await client.messages.create({ ...asked(), stream: true }), 4),
  helper: async (client) => client.messages.stream(asked()).finalMessage(),
  beta: async (client) => client.beta.messages.create(asked()),
  refused: async (client) => client.messages.create(asked("refused")),
};

const differing = {};
const client = observeAnthropic(made());
for (const [way, run] of Object.entries(ways)) {
  const seen = await trace(way, () => run(client)).catch((error) => `${error.constructor.name}: ${error.message}`);
  const plain = await run(made()).catch((error) => `${error.constructor.name}: ${error.message}`);
  if (JSON.stringify(seen) !== JSON.stringify(plain)) differing[way] = { seen, plain };
}
console.log(JSON.stringify({ differing, sent: await handle.flush() }));
server.close();
