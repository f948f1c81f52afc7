// Types, as users of `import` write them.
import { agent, conversation, init, params, prompt, tool, trace } from "agent-ratchet";
import type { Handle } from "agent-ratchet";
const handle: Handle = init({ agent: "booking" });
const system = prompt("system", "Be {tone}.");
const search = params("search", { k: 5, mode: "fast", on: true });
const count = async (given: { people: number }) => [given.people];
const find = tool(count, { sideEffects: true });
const answer = agent(async (question: string): Promise<string> => {
  const rows: number[] = await find({ people: search.k + 1 });
  const mode: string = search.mode;
  const said = `${rows}${mode}${question}`;
  return conversation("c", () => trace("t", (step) => step.traceId + said));
});
const text: Promise<string> = answer("x");
const sent: Promise<boolean> = handle.flush();
// @ts-expect-error the argument keeps its type
answer(1);
// @ts-expect-error a knob cannot be assigned to
search.k = 1;
export default [text, sent, system.format({ tone: "brief" })];
