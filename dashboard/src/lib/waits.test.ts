import { expect, test } from "vitest";
import { awaited } from "./waits";

test("a wait says for what and how long", () => {
  const waits = [
    { what: "the coach", since: 5 },
    { what: "rollouts of the agent", since: 88.4 },
  ];
  expect(awaited(waits, 100)).toBe("waiting for the coach, 95 s; waiting for rollouts of the agent, 12 s");
  expect(awaited([], 100)).toBe("");
});
