// A model server that does what the request's model says, and streams in the forms of the providers.
import { createServer } from "node:http";

export const USAGE = { prompt_tokens: 1000, completion_tokens: 200, total_tokens: 1200 };
const TEXT = ["It ", "is ", "sunny."];

const chunk = (delta, more = {}, index = 0) => ({ choices: [{ index, delta, finish_reason: null, ...more }] });
const call = (index, id, name, text) => ({ tool_calls: [{ index, id, function: { name, arguments: text } }] });

/** Chunks of a chat by the model's name. */
const CHATS = {
  text: [...TEXT.map((content) => chunk({ content })), chunk({}, { finish_reason: "stop" })],
  calls: [
    chunk(call(0, "a", "weather", '{"city":')),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '"Oslo"}' } }] }),
    chunk(call(0, "b", "clock", '{"zone":"CET"}')),
    chunk({}, { finish_reason: "tool_calls" }),
  ],
  two: [
    chunk({ content: "on" }, {}, 0),
    chunk({ content: "tw" }, {}, 1),
    chunk({ content: "e" }, { finish_reason: "stop" }, 0),
    chunk({ content: "o" }, { finish_reason: "stop" }, 1),
  ],
  endless: TEXT.map((content) => chunk({ content })),
  cut: [chunk({ content: "It " }), "cut"],
  error: [chunk({ content: "It " }), { error: { message: "The model crashed.", type: "server_error" } }],
};

const RESPONSE = {
  id: "resp_1",
  object: "response",
  model: "gpt-4o-mini",
  status: "completed",
  output: [
    {
      id: "m",
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text: TEXT.join(""), annotations: [] }],
    },
  ],
  usage: { input_tokens: 1000, output_tokens: 200, total_tokens: 1200 },
};
const RESPONSES = [
  { type: "response.created", response: { ...RESPONSE, status: "in_progress", output: [], usage: null } },
  {
    type: "response.output_item.added",
    output_index: 0,
    item: { id: "m", type: "message", role: "assistant", content: [] },
  },
  ...TEXT.map((delta) => ({
    type: "response.output_text.delta",
    item_id: "m",
    output_index: 0,
    content_index: 0,
    delta,
  })),
  { type: "response.completed", response: RESPONSE },
];

const MESSAGE = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-3-5-haiku-latest",
  content: [{ type: "text", text: TEXT.join("") }],
  stop_reason: "end_turn",
  usage: { input_tokens: 900, cache_read_input_tokens: 100, output_tokens: 200 },
};
const MESSAGES = [
  {
    type: "message_start",
    message: { ...MESSAGE, content: [], stop_reason: null, usage: { ...MESSAGE.usage, output_tokens: 1 } },
  },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  ...TEXT.map((text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })),
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 200 } },
  { type: "message_stop" },
];

/** Starts it; `requests` are the bodies that it was sent. */
export async function scripted() {
  const requests = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (part) => (body += part));
    request.on("end", () => {
      const asked = JSON.parse(body);
      requests.push(asked);
      answer(request.url, asked, response);
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function answer(url, asked, response) {
  const how = asked.metadata?.how ?? "text";
  const send = (status, json) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(json));
  };
  if (how === "silent") return;
  if (how === "refused") return send(429, { error: { message: "Slow down.", type: "requests" } });
  if (how === "old" && asked.stream_options) {
    return send(400, { error: { message: "Unrecognized request argument supplied: stream_options" } });
  }
  if (how === "strict" && asked.stream_options) {
    return send(422, { detail: [{ type: "extra_forbidden", loc: ["body", "stream_options"] }] });
  }
  if (how === "bad") return send(400, { error: { message: "The context is too long." } });
  if (url.endsWith("/embeddings")) {
    const embedding = Buffer.from(new Float32Array([0.5, 0.25, 1]).buffer).toString("base64");
    return send(200, {
      model: asked.model,
      data: [{ index: 0, embedding }],
      usage: { prompt_tokens: 8, total_tokens: 8 },
    });
  }
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", model: asked.model };
  let events = url.endsWith("/responses") ? RESPONSES : MESSAGES;
  if (url.endsWith("/chat/completions")) {
    events = (CHATS[how] ?? CHATS.text).map((event) => (event.choices ? { ...head, ...event } : event));
    if (asked.stream_options?.include_usage && how !== "endless") {
      events = [
        ...events.map((event) => (event.choices ? { ...event, usage: null } : event)),
        { ...head, choices: [], usage: USAGE },
      ];
    }
  }
  if (!asked.stream) {
    const message = { role: "assistant", content: TEXT.join("") };
    const chat = {
      ...head,
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: "stop" }],
      usage: USAGE,
    };
    return send(200, url.endsWith("/chat/completions") ? chat : url.endsWith("/responses") ? RESPONSE : MESSAGE);
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of events) {
    if (event === "cut") return setImmediate(() => response.destroy());
    response.write(`${event.type ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`);
  }
  if (how === "endless") return;
  response.end(url.endsWith("/chat/completions") ? "data: [DONE]\n\n" : "");
}
