import { expect, test } from "vitest";
import { runnerCommand, sameValue, standing } from "./outcome";

const side = (status: "queued" | "running" | "succeeded" | "failed" | "cancelled", output: unknown = null) => ({
  rollout_id: "r", trace_id: "", status, output, error: "", duration_s: 1, cost_usd: 0, known_usd: 0,
});
const at = (rerun: ReturnType<typeof side>, original: ReturnType<typeof side> | null = side("succeeded", "a"), runners: string[] = []) => standing({ rerun, original, queue: "support", runners });

test("while it waits, the sentence says who serves the queue", () => {
  expect(at(side("queued"))).toBe("Waits in the queue support: no runner of this server serves it.");
  expect(at(side("queued"), null, ["a"])).toBe("Waits in the queue support, which 1 runner serves.");
});

test("after its end it is compared with the original", () => {
  expect(at(side("succeeded", "a"))).toBe("The output is the same.");
  expect(at(side("succeeded", "b"))).toBe("The outputs differ.");
  expect(at(side("failed"))).toBe("The original succeeded, the rerun failed.");
  expect(at(side("failed"), side("failed"))).toBe("Both failed.");
  expect(at(side("succeeded"), null)).toContain("has been deleted");
  expect(at(side("cancelled"))).toContain("has not run");
});

test("values are equal whatever the order of their fields", () => {
  expect(sameValue({ a: 1, b: [2, null] }, { b: [2, null], a: 1 })).toBe(true);
  expect(sameValue({ a: 1 }, { a: 1, b: undefined })).toBe(false);
  expect(sameValue([1, 2], [2, 1])).toBe(false);
  expect(sameValue([], {})).toBe(false);
  expect(sameValue(null, {})).toBe(false);
});

test("a queue that a shell would take apart is quoted", () => {
  expect(runnerCommand("http://x", "agent:answer@1/py3.12/plain/r")).toBe("ratchet runner --server http://x --queue agent:answer@1/py3.12/plain/r");
  expect(runnerCommand("http://x", "it's; rm")).toBe(`ratchet runner --server http://x --queue 'it'\\''s; rm'`);
});
