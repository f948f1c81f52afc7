// A simulator in the place of a model, to try the agent without a key or a network.
//
// It speaks OpenAI's chat completions, and follows three rules: asked about a room by its name it
// calls `describe_room`; told a day and a number of people, now or earlier, it calls `find_rooms`;
// told what a tool said, it answers with that.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

const PORT = Number(process.env.PORT || 9099);

function reply({ messages }) {
  const last = messages.at(-1);
  if (last.role === "tool") return { content: sentence(last.content) };
  const asked = messages.filter(({ role }) => role === "user").map(({ content }) => content);
  const room = /\bthe (?:room )?([A-Z]\w+)/.exec(asked.at(-1))?.[1];
  if (room) return call("describe_room", { name: room });
  const day = newest(asked, /\b(\w+day)\b/i)?.toLowerCase();
  const people = newest(asked, /\b(\d+)\b/);
  if (day && people) return call("find_rooms", { day, people: Number(people) });
  return { content: "For which day, and for how many people?" };
}

function newest(texts, pattern) {
  return texts.map((text) => pattern.exec(text)?.[1]).findLast(Boolean);
}

function call(name, given) {
  const made = { name, arguments: JSON.stringify(given) };
  return { content: null, tool_calls: [{ id: `call_${randomUUID()}`, type: "function", function: made }] };
}

function sentence(said) {
  if (said.startsWith("Error: ")) return said.slice("Error: ".length);
  const found = JSON.parse(said);
  if (!Array.isArray(found)) {
    const { name, floor, seats, equipment } = found;
    return `${name} is on floor ${floor}, has ${seats} seats and a ${equipment.join(" and a ")}.`;
  }
  const [first] = found;
  return first
    ? `${first.name} on floor ${first.floor} is free; it has ${first.seats} seats.`
    : "No room is large enough and free.";
}

const server = createServer(async (request, response) => {
  let given = "";
  for await (const piece of request.setEncoding("utf8")) given += piece;
  response.setHeader("content-type", "application/json");
  if (request.method !== "POST" || !request.url.endsWith("/chat/completions")) {
    response.writeHead(404).end('{"error": {"message": "Only chat completions are simulated."}}');
    return;
  }
  const asked = JSON.parse(given);
  const message = { role: "assistant", refusal: null, ...reply(asked) };
  const reason = message.tool_calls ? "tool_calls" : "stop";
  const written = message.content ?? message.tool_calls[0].function.arguments;
  const [prompt, completion] = [Math.ceil(given.length / 4), Math.ceil(written.length / 4)];
  const answer = {
    id: `chatcmpl-${randomUUID()}`,
    object: "chat.completion",
    created: Math.floor(Date.now() / 1000),
    model: asked.model,
    choices: [{ index: 0, message, finish_reason: reason, logprobs: null }],
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    },
  };
  response.end(JSON.stringify(answer));
});

server.listen(PORT, "127.0.0.1", () => {
  console.log(`The simulator is at http://127.0.0.1:${server.address().port}/v1`);
});
