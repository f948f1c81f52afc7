import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as callbacks from "@langchain/core/callbacks/manager";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";
import { base, MODEL, schema, shown, SYSTEM } from "./weather.mjs";

new LangChainInstrumentation().manuallyInstrument(callbacks);
const model = new ChatOpenAI({ model: MODEL, apiKey: "none", configuration: { baseURL: `${base}/v1` } });
const weather = tool(async ({ city }) => `sunny in ${city}`, { name: "get_weather", schema });

await shown(async (question) => {
  const agent = createAgent({ model, tools: [weather], systemPrompt: SYSTEM });
  const { messages } = await agent.invoke({ messages: [{ role: "user", content: question }] });
  return messages.at(-1).content;
});
