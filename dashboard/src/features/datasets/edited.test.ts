import { expect, test } from "vitest";
import { asEdited, fromEdited } from "./edited";

test("a value comes back as it was when nothing is edited", () => {
  for (const value of ["a text", '"quoted"', "17", { a: [1, null] }, 17, true, ["x"], null])
    expect(fromEdited("The input", asEdited(value), value)).toEqual(value);
});

test("a text stays a text, whatever it looks like", () => {
  expect(fromEdited("The input", "{}", "before")).toBe("{}");
});

test("an answer that was missing may be a text or JSON", () => {
  expect(fromEdited("The expected answer", "Paris", null)).toBe("Paris");
  expect(fromEdited("The expected answer", "[1, 2]", undefined)).toEqual([1, 2]);
});

test("what is no JSON any more is refused with a sentence", () => {
  expect(() => fromEdited("The input", "{", { a: 1 })).toThrow("The input is not JSON");
});
