import { expect, test } from "vitest";
import { change } from "./change";

test("a change is in percent of the source's, and none where one is unknown", () => {
  expect(change(0.38, 1)).toBe("−62 %");
  expect(change(3, 1.5)).toBe("+100 %");
  expect([change(null, 1), change(1, null), change(1, 0), change(1.001, 1)]).toEqual(["", "", "", ""]);
});
