import { describe, expect, it } from "vitest";
import { groupOf, groupsOf } from "./outputs";

const check = (name: string, value: number | null, n: number) => ({ name, value, n, low: null, high: null, verdict: "decides" as const, detail: "" });
const card = {
  id: "c", evaluator: "e", version: "1", verdict: "decides" as const, reasons: [], labels: 5, labels_needed: null, rollouts: 8, cost_usd: 0, seconds: 0, data: "", created_at: 0,
  checks: [check("kappa", 0.6, 5), check("true positive rate", 1, 3), check("unscored", 0.125, 8), check("damage", 1, 40), check("calibration at 0.20", 0, 2), check("calibration at 0.90", 1, 3)],
  outputs: [
    { rollout_id: "a", score: 0.9, label: 1 },
    { rollout_id: "b", score: 0.2, label: 0 },
    { rollout_id: "c", score: 0.2, label: 0.2 },
    { rollout_id: "d", score: 0.9, label: 1 },
    { rollout_id: "e", score: 0.9, label: 0.8 },
    { rollout_id: "f", score: 0.5, label: 0.5 },
    { rollout_id: "g", score: null, label: null },
    { rollout_id: "h", score: 0.4, label: null },
  ],
};

describe("the outputs behind a card's figures", () => {
  const groups = groupsOf(card);
  const ids = (name: string) => groups.get(name)?.map((output) => output.rollout_id).join("");

  it("are those that people agree about, those without a score, and the neighbours by score", () => {
    expect(ids("labelled")).toBe("abcde");
    expect(ids("called right")).toBe("ade");
    expect(ids("unscored")).toBe("g");
    expect(ids("point 1 of the curve")).toBe("bc");
    expect(ids("point 2 of the curve")).toBe("ade");
  });

  it("are named by a check that counts as many, and by none that scored copies", () => {
    expect(card.checks.slice(0, 4).map((each) => groupOf(each, groups))).toEqual(["labelled", "called right", "unscored", undefined]);
    expect(groupOf(check("kappa", 0.6, 4), groups)).toBeUndefined();
  });
});
