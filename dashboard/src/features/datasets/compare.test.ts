import { expect, it } from "vitest";
import { compare } from "./compare";

const task = (id: string, input: unknown, expected: unknown = null) => ({ id, input, expected });

it("tells what was added, removed, changed and moved", () => {
  const before = { tasks: [task("a", 1), task("b", 2), task("c", 3)], splits: { a: "train", b: "test", c: "val" } };
  const after = { tasks: [task("a", 1), task("b", 2, "x"), task("d", 4)], splits: { a: "test", b: "test", d: "train" } };
  const found = compare(before, after);
  expect(found.added.map((each) => each.id)).toEqual(["d"]);
  expect(found.removed.map((each) => each.id)).toEqual(["c"]);
  expect(found.changed.map((each) => each.after.id)).toEqual(["b"]);
  expect(found.moved).toEqual([{ task: task("a", 1), from: "train", to: "test" }]);
});
it("finds nothing between equal versions", () => {
  const version = { tasks: [task("a", { b: [1] })], splits: { a: "train" } };
  expect(compare(version, structuredClone(version))).toEqual({ added: [], removed: [], changed: [], moved: [] });
});
