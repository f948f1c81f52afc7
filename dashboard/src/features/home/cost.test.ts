import { expect, test } from "vitest";
import { costOf } from "./cost";

const DAY = 86_400;
const day = (at: number, known_usd: number, unpriced = 0) => ({ at, known_usd, unpriced, traces: 1 });

test("a day without traces counts as one that cost nothing", () => {
  const cost = costOf([day(0, 3), day(2 * DAY, 6)]);
  expect(cost.days.map((each) => each.value)).toEqual([3, 0, 6]);
  expect(cost).toMatchObject({ perDay: 3, known: true });
});

test("a call without a price makes it a lower bound", () => {
  expect(costOf([day(0, 1, 2)])).toMatchObject({ perDay: 1, known: false });
});

test("without traces it costs nothing", () => {
  expect(costOf([])).toEqual({ perDay: 0, known: true, days: [] });
});
