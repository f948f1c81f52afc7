import { observeOpenAI } from "agent-ratchet";
import OpenAI from "openai";
import { base, getWeather, MODEL, schema, shown, SYSTEM } from "./weather.mjs";

const client = observeOpenAI(new OpenAI({ baseURL: `${base}/v1`, apiKey: "none" }));
const tools = [{ type: "function", function: { name: "get_weather", parameters: schema } }];

await shown(async (question) => {
  const messages = [{ role: "system", content: SYSTEM }, { role: "user", content: question }];
  for (;;) {
    const { choices } = await client.chat.completions.create({ model: MODEL, messages, tools });
    const { message } = choices[0];
    if (!message.tool_calls?.length) return message.content;
    messages.push(message);
    for (const { id, function: call } of message.tool_calls) {
      const content = await getWeather(JSON.parse(call.arguments));
      messages.push({ role: "tool", tool_call_id: id, content });
    }
  }
});
