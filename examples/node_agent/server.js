// The chat server: the page, and POST /api/chat for it. Keys of providers stay in here.
import { flushTraces } from "./tracing.js"; // before anything that it traces
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { answer } from "./agent.js";

const PORT = Number(process.env.PORT || 3000);
const HOST = process.env.HOST || "127.0.0.1";
// Where a browser finds Ratchet; the agent itself may know it under another address.
const RATCHET = process.env.RATCHET_PUBLIC_URL || process.env.OTEL_EXPORTER_OTLP_ENDPOINT;

const MOST_CONVERSATIONS = 1000;
const MOST_MESSAGES = 40;
const MOST_BYTES = 100_000;

// All that the page learns. The key must have the scope `feedback` alone: whoever opens the page has it.
const SETTINGS = { ratchet: RATCHET, feedbackKey: process.env.RATCHET_FEEDBACK_KEY || "" };

const PAGE = new Map([
  ["/", ["index.html", "text/html; charset=utf-8"]],
  ["/chat.js", ["chat.js", "text/javascript; charset=utf-8"]],
  ["/style.css", ["style.css", "text/css; charset=utf-8"]],
]);

const SAFE = {
  "content-security-policy": `default-src 'self'; img-src data:; connect-src 'self' ${new URL(RATCHET).origin}`,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** Id of a conversation: its messages. The oldest conversation is forgotten first. */
const conversations = new Map();

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function chat(request) {
  // A form of another site cannot send this type, so no other page can speak through a visitor.
  if (!request.headers["content-type"]?.startsWith("application/json")) {
    throw new Refusal(415, "Send application/json.");
  }
  const { message, conversation_id: asked } = await body(request);
  if (typeof message !== "string" || !message.trim()) throw new Refusal(400, "Ask something.");
  const id = conversations.has(asked) ? asked : randomUUID();
  const history = conversations.get(id) ?? [];
  const { text, traceId, spanId } = await answer(message, id, history);
  remember(id, history);
  return { answer: text, conversation_id: id, trace_id: traceId, span_id: spanId };
}

function remember(id, history) {
  while (history.length > MOST_MESSAGES || (history.length && history[0].role !== "user")) {
    history.shift();
  }
  conversations.delete(id);
  conversations.set(id, history);
  if (conversations.size > MOST_CONVERSATIONS) conversations.delete(conversations.keys().next().value);
}

async function body(request) {
  const pieces = [];
  let size = 0;
  for await (const piece of request) {
    size += piece.length;
    if (size > MOST_BYTES) throw new Refusal(413, "That is too long.");
    pieces.push(piece);
  }
  try {
    return Object(JSON.parse(Buffer.concat(pieces).toString()));
  } catch {
    throw new Refusal(400, "That is no JSON.");
  }
}

async function respond(request) {
  const path = request.url.split("?", 1)[0];
  if (request.method === "POST" && path === "/api/chat") return json(await chat(request));
  if (request.method === "GET" && path === "/settings.json") return json(SETTINGS);
  if (request.method === "GET" && PAGE.has(path)) {
    const [name, type] = PAGE.get(path);
    return { type, content: await readFile(new URL(`page/${name}`, import.meta.url)) };
  }
  throw new Refusal(404, "There is nothing here.");
}

function json(value, status = 200) {
  return { status, type: "application/json", content: JSON.stringify(value) };
}

function failure(error) {
  if (error instanceof Refusal) return json({ error: error.message }, error.status);
  console.error(error);
  return json({ error: "The agent could not answer. Try again." }, 502);
}

const server = createServer(async (request, response) => {
  const { status = 200, type, content } = await respond(request).catch(failure);
  response.writeHead(status, { ...SAFE, "content-type": type }).end(content);
});

server.listen(PORT, HOST, () => {
  console.log(`The room agent is at http://${HOST}:${server.address().port}`);
});

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    server.close(async () => {
      await flushTraces();
      process.exit(0);
    });
    server.closeIdleConnections();
  });
}
