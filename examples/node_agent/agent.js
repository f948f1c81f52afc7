// The agent: a model that may use the tools, until it answers.
import { context, trace } from "@opentelemetry/api";
import {
  getInputAttributes,
  getOutputAttributes,
  setSession,
  traceAgent,
  traceTool,
} from "@arizeai/openinference-core";
import OpenAI from "openai";
import { TOOLS } from "./rooms.js";
import { traceHeaders } from "./tracing.js";

const MODEL = process.env.OPENAI_MODEL || "gpt-6-luna";
const MOST_STEPS = 6;

const INSTRUCTIONS = `You help people find a meeting room.
Look rooms up with the tools before you answer; never guess.
Answer in one or two sentences.`;

const client = new OpenAI(); // OPENAI_API_KEY and OPENAI_BASE_URL

const tools = Object.entries(TOOLS).map(([name, { description, parameters }]) => ({
  type: "function",
  function: {
    name,
    description,
    parameters: { type: "object", properties: parameters, required: Object.keys(parameters) },
  },
}));

/**
 * Answer a question.
 *
 * @param {string} question
 * @param {string} conversation Id of the conversation; each span carries it.
 * @param {object[]} history Messages before this one; the new ones are added to it.
 * @returns {Promise<{text: string, traceId: string, spanId: string}>}
 */
export function answer(question, conversation, history = []) {
  const session = setSession(context.active(), { sessionId: conversation });
  return context.with(session, () => runAgent(question, history));
}

const runAgent = traceAgent(
  async (question, history) => {
    const { traceId, spanId } = trace.getActiveSpan().spanContext();
    const added = [{ role: "user", content: question }];
    for (let step = 0; step < MOST_STEPS; step++) {
      const messages = [{ role: "system", content: INSTRUCTIONS }, ...history, ...added];
      const completion = await client.chat.completions.create(
        { model: MODEL, messages, tools },
        { headers: traceHeaders() },
      );
      const { content, tool_calls: calls } = completion.choices[0].message;
      if (!calls?.length) {
        // Only a turn that came to its end becomes part of the conversation.
        history.push(...added, { role: "assistant", content });
        return { text: content ?? "", traceId, spanId };
      }
      added.push({ role: "assistant", content, tool_calls: calls });
      for (const call of calls) {
        added.push({ role: "tool", tool_call_id: call.id, content: await useTool(call) });
      }
    }
    throw new Error(`There was no answer after ${MOST_STEPS} steps.`);
  },
  {
    name: "rooms",
    processInput: (question) => getInputAttributes(question),
    processOutput: ({ text }) => getOutputAttributes(text),
  },
);

/** What a tool says, as text for the model; an error is told to it, so that it can try again. */
async function useTool({ id, function: { name, arguments: given } }) {
  const run = (values) => {
    if (!Object.hasOwn(TOOLS, name)) throw new Error(`There is no tool called ${name}.`);
    return TOOLS[name].run(values);
  };
  try {
    return JSON.stringify(traceTool(run, { name, attributes: { "tool.id": id } })(JSON.parse(given)));
  } catch (error) {
    return `Error: ${error.message}`;
  }
}
