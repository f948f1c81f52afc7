import { expect, test } from "vitest";
import { ends, wilson } from "./interval";

test("the interval is Wilson's", () => {
  const [low, high] = wilson(0.11, 100)!;
  expect(low).toBeCloseTo(0.0625, 3);
  expect(high).toBeCloseTo(0.1863, 3);
});

test("it stays within 0 and 1 and is not empty at the ends", () => {
  expect(wilson(0, 10)![0]).toBe(0);
  expect(wilson(0, 10)![1]).toBeCloseTo(0.2775, 3);
  expect(wilson(1, 10)![1]).toBeCloseTo(1, 9);
  expect(wilson(0.5, 0)).toBeNull();
});

test("no bound is shown as a zero that it is not", () => {
  expect(ends([-0.12, 0.53])).toBe("[−0.120, +0.530]");
  expect(ends([0, 0.53])).toBe("[above 0, +0.530]"); // the moment of proof
  expect(ends([-0.0003, 0.53])).toBe("[−0.0003, +0.530]");
  expect(ends([-0.4, -1e-9])).toBe("[−0.400, below 0]");
  expect(ends([0, 0])).toBe("[0, 0]");
});
