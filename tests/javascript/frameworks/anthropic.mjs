import { observeAnthropic } from "agent-ratchet";
import Anthropic from "@anthropic-ai/sdk";
import { base, getWeather, schema, shown, SYSTEM } from "./weather.mjs";

const client = observeAnthropic(new Anthropic({ baseURL: base, apiKey: "none" }));
const tools = [{ name: "get_weather", input_schema: schema }];

await shown(async (question) => {
  const messages = [{ role: "user", content: question }];
  for (;;) {
    const asked = { model: "claude-3-5-haiku-latest", max_tokens: 100, system: SYSTEM, messages, tools };
    const { content } = await client.messages.create(asked);
    const calls = content.filter(({ type }) => type === "tool_use");
    if (!calls.length) return content[0].text;
    messages.push({ role: "assistant", content });
    const results = [];
    for (const { id, input } of calls) {
      results.push({ type: "tool_result", tool_use_id: id, content: await getWeather(input) });
    }
    messages.push({ role: "user", content: results });
  }
});
