// What the programs of all libraries share: the tool, and how the agent is marked.
import { agent, init, tool } from "agent-ratchet";

export const handle = init();
export const QUESTION = "What is the weather in Paris?";
export const SYSTEM = "You tell the weather.";
export const MODEL = "gpt-4o-mini";
export const base = process.env.SIMULATOR;

export const getWeather = tool(async ({ city }) => `sunny in ${city}`, { name: "get_weather" });
export const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
};

export async function shown(run) {
  console.log(JSON.stringify(await agent(run, { name: "weather" })(QUESTION)));
}
