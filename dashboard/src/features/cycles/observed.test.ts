import { describe, expect, it } from "vitest";
import type { Schemas } from "../../api/client";
import { callsOf } from "./observed";

const call = (trace_id: string, fields: Partial<Schemas["StageCall"]>): Schemas["StageCall"] => ({
  stage: "shadow", part: "pair", trace_id, rollout_id: "", baseline: null, candidate: null, error: false, latency_s: null, cost_usd: null, group: "", why: "", blocked: false, ...fields,
});
const calls = [
  call("a", { baseline: 0.5, candidate: 0.7, group: "refunds" }),
  call("b", { baseline: 0.5 }),
  call("c", { baseline: 0.5, blocked: true }),
  call("d", { stage: "watch", part: "candidate", candidate: 0.4, group: "refunds" }),
  call("e", { stage: "watch", part: "candidate", cost_usd: 0.1 }),
  call("f", { stage: "watch", part: "before", baseline: 0.9 }),
];
const ids = (of: Parameters<typeof callsOf>[1]) => callsOf(calls, of).map((each) => each.trace_id).join("");

describe("the calls behind a stage's figures", () => {
  it("are pairs with both scores, on both sides", () => {
    expect(ids({ stage: "shadow", which: "baseline" })).toBe("a");
    expect(ids({ stage: "shadow", which: "candidate" })).toBe("a");
    expect(ids({ stage: "shadow", which: "without a score" })).toBe("b");
    expect(ids({ stage: "shadow", which: "blocked" })).toBe("c");
  });

  it("are those of a watch whose metric is known, and those before it", () => {
    expect(ids({ stage: "watch", which: "candidate", metric: "score" })).toBe("d");
    expect(ids({ stage: "watch", which: "candidate", metric: "errors" })).toBe("de");
    expect(ids({ stage: "watch", which: "candidate", metric: "cost" })).toBe("e");
    expect(ids({ stage: "watch", which: "without a score" })).toBe("e");
    expect(ids({ stage: "watch", which: "before" })).toBe("f");
  });

  it("are of one group", () => {
    expect(ids({ group: "refunds" })).toBe("ad");
  });
});
