import { createOpenAI } from "@ai-sdk/openai";
import { OpenTelemetry } from "@ai-sdk/otel";
import { generateText, jsonSchema, registerTelemetry, stepCountIs, tool } from "ai";
import { base, MODEL, schema, shown, SYSTEM } from "./weather.mjs";

registerTelemetry(new OpenTelemetry());
const openai = createOpenAI({ baseURL: `${base}/v1`, apiKey: "none" });
const weather = tool({ inputSchema: jsonSchema(schema), execute: async ({ city }) => `sunny in ${city}` });

await shown(async (question) => {
  const { text } = await generateText({
    model: openai.chat(MODEL),
    system: SYSTEM,
    prompt: question,
    tools: { get_weather: weather },
    stopWhen: stepCountIs(4),
  });
  return text;
});
