import { expect, test } from "vitest";
import { costOf } from "./cost";

const step = (at: number, traces: number, sampled: number, known_usd: number) => ({ at, traces, sampled, known_usd, errors: 0, p95_s: null, feedback: null });

test("steps add up over agents, and a sampled step counts for all of its traces", () => {
  const agents = [
    { cost_usd: 3, series: [step(0, 2, 2, 2), step(43_200, 10, 5, 1)] },
    { cost_usd: 1, series: [step(0, 1, 1, 1), step(43_200, 0, 0, 0)] },
  ];
  const cost = costOf(agents, 43_200);
  expect(cost.steps).toEqual([{ at: 0, value: 3 }, { at: 43_200, value: 2 }]);
  expect(cost).toMatchObject({ perDay: 5, estimated: true, known: true });
});

test("a call without a price makes it a lower bound", () => {
  expect(costOf([{ cost_usd: null, series: [step(0, 1, 1, 1)] }], 86_400)).toMatchObject({ perDay: 1, estimated: false, known: false });
});
