import { expect, test } from "vitest";
import { liveShare } from "./share";

const split = (candidate_id: string, enrolled: number, experiment_id = "e") => ({ agent: "a", experiment_id, candidate_id, enrolled, started_at: 0, reason: "" });

test("a release that is active gets what a canary leaves", () => {
  expect(liveShare("r", "r", undefined)).toBe("all");
  expect(liveShare("r", "r", split("c", 0.2, ""))).toBe("all");
  expect(liveShare("r", "r", split("c", 0.2))).toBe("90 % of conversations or users; 10 % get the canary c");
});

test("a canary's candidate gets half of what is enrolled", () => {
  expect(liveShare("c", "r", split("c", 0.05))).toBe("2.5 % of conversations or users, as a canary");
  expect(liveShare("old", "r", split("c", 0.05))).toBe("none: another version is active");
});
