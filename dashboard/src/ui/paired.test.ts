import { diffLines } from "diff";
import { describe, expect, it } from "vitest";
import { paired } from "./paired";

const shown = (before: string, after: string) => paired(diffLines(before, after)).map((change) => (change.removed ? "-" : change.added ? "+" : " ") + change.value.replaceAll("\n", "|"));

describe("lines that changed", () => {
  it("stand under one another where they set the same names", () => {
    expect(shown("a = 1\nb = 2\nc = 3\nd = 4", "a = 5\nb = 6\nc = 3\nd = 7")).toEqual(["-a = 1|", "+a = 5|", "-b = 2|", "+b = 6|", " c = 3|", "-d = 4", "+d = 7"]);
  });

  it("stay in blocks otherwise", () => {
    expect(shown("a = 1\nb = 2\n", "b = 5\na = 6\n")).toEqual(["-a = 1|b = 2|", "+b = 5|a = 6|"]);
    expect(shown("x\ny\n", "z\n")).toEqual(["-x|y|", "+z|"]);
  });
});
