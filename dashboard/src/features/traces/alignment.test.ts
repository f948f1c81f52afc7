import { expect, test } from "vitest";
import { align } from "./alignment";
import { rowsOf, treeOf } from "./tree";

const span = (id: number, name: string, parent: number | null = null, operation = "step") => ({
  span_id: String(id), parent_id: parent == null ? null : String(parent), start_ns: id, end_ns: id + 1, status: "ok", name, operation,
});
const rows = (...spans: ReturnType<typeof span>[]) => rowsOf(treeOf(spans), new Set());
const shown = (...of: Parameters<typeof align>) => align(...of).map((row) => [row.one?.span.name, row.other?.span.name]);

test("the same steps stand beside each other", () => {
  const one = rows(span(1, "agent"), span(2, "chat", 1), span(3, "search", 1));
  expect(shown(one, one)).toEqual([["agent", "agent"], ["chat", "chat"], ["search", "search"]]);
});

test("a step that only one trace took stands alone", () => {
  const one = rows(span(1, "agent"), span(2, "chat", 1), span(3, "chat", 1));
  const other = rows(span(1, "agent"), span(2, "chat", 1), span(3, "search", 1), span(4, "chat", 1));
  expect(shown(one, other)).toEqual([["agent", "agent"], ["chat", "chat"], [undefined, "search"], ["chat", "chat"]]);
});

test("a step of the same name elsewhere in the tree is another one", () => {
  const one = rows(span(1, "agent"), span(2, "chat", 1));
  const other = rows(span(1, "agent"), span(2, "plan", 1), span(3, "chat", 2));
  expect(shown(one, other).filter(([a, b]) => a && b)).toEqual([["agent", "agent"]]);
});

test("an empty trace has nothing in common", () => {
  expect(shown([], rows(span(1, "agent")))).toEqual([[undefined, "agent"]]);
});
