// One rollout: the task comes on standard input, the answer goes to standard output.
//
//   ratchet runner --server http://127.0.0.1:8765 --command "node rollout.js"
import { flushTraces, inGivenTrace } from "./tracing.js"; // before anything that it traces
import { readFileSync } from "node:fs";
import { answer } from "./agent.js";

const task = JSON.parse(readFileSync(0, "utf8"));
try {
  const { text } = await inGivenTrace(() => answer(task.input.question, task.rollout_id));
  console.log(JSON.stringify({ answer: text }));
} finally {
  await flushTraces();
}
