import { expect, test } from "vitest";
import { wilson } from "./interval";

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
