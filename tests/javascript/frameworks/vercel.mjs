import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, stepCountIs, tool } from "ai";
import { base, MODEL, schema, shown, SYSTEM } from "./weather.mjs";

const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey: "none" });
const weather = tool({ inputSchema: jsonSchema(schema), execute: async ({ city }) => `sunny in ${city}` });

await shown(async (question) => {
  const { text } = await generateText({
    model: openai.chat(MODEL),
    system: SYSTEM,
    prompt: question,
    tools: { get_weather: weather },
    stopWhen: stepCountIs(4),
    experimental_telemetry: { isEnabled: true },
  });
  return text;
});
