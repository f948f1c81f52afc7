import { expect, test } from "vitest";
import { shareOf, trendOf } from "./words";

test("a trend compares the halves of the window, and few occurrences have none", () => {
  expect(trendOf([1, 1, 1, 1, 4, 4, 4, 4])).toBe("rising");
  expect(trendOf([4, 4, 4, 4, 1, 1, 1, 1])).toBe("falling");
  expect(trendOf([2, 2, 2, 2, 2, 2, 2, 2])).toBe("steady");
  expect(trendOf([0, 0, 0, 0, 0, 1, 1, 1])).toBe("");
});

test("a small share keeps two digits that count", () => {
  expect([0.5, 0.1234, 0.0123, 0].map(shareOf)).toEqual(["50 %", "12 %", "1.2 %", "0 %"]);
});
