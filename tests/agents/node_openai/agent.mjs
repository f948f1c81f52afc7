// A travel agent in Node, written with OpenAI's own library. It knows nothing of Ratchet.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const { input } = JSON.parse(readFileSync(0, "utf8"));

const client = new OpenAI();

const tools = [
  {
    type: "function",
    function: {
      name: "weather",
      description: "Tells the weather of a city.",
      parameters: {
        type: "object",
        properties: { city: { type: "string" } },
        required: ["city"],
      },
    },
  },
];

const weather = { Oslo: "snow", Rome: "sun" };

const messages = [
  {
    role: "system",
    content: `You are the travel assistant of ${input.company}.
Today is ${input.date}. Look the weather up before you answer.
Answer in one sentence.`,
  },
  { role: "user", content: input.question },
];

async function ask() {
  const stream = await client.chat.completions.create({
    model: "gpt-4o-mini",
    messages,
    tools,
    stream: true,
    stream_options: { include_usage: true },
  });
  const message = { role: "assistant", content: "", tool_calls: [] };
  let chunks = 0;
  for await (const chunk of stream) {
    chunks += 1;
    const delta = chunk.choices[0]?.delta ?? {};
    message.content += delta.content ?? "";
    for (const part of delta.tool_calls ?? []) {
      const call = (message.tool_calls[part.index] ??= {
        id: "",
        type: "function",
        function: { name: "", arguments: "" },
      });
      call.id += part.id ?? "";
      call.function.name += part.function?.name ?? "";
      call.function.arguments += part.function?.arguments ?? "";
    }
  }
  console.error(`${chunks} chunks`);
  return message;
}

let answer = await ask();
while (answer.tool_calls.length > 0) {
  messages.push(answer);
  for (const call of answer.tool_calls) {
    const { city } = JSON.parse(call.function.arguments);
    messages.push({ role: "tool", tool_call_id: call.id, content: weather[city] ?? "unknown" });
  }
  answer = await ask();
}
console.log(JSON.stringify({ answer: answer.content }));
