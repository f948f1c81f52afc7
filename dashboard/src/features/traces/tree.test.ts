import { describe, expect, it } from "vitest";
import { barOf, extentOf, pathTo, rowsOf, treeOf, type SpanLike } from "./tree";

const span = (span_id: string, parent_id: string | null, start = 0, end = start + 1, status = "ok"): SpanLike => ({
  span_id,
  parent_id,
  start_ns: start,
  end_ns: end,
  status,
});
const ids = (spans: SpanLike[], folded: string[] = []) =>
  rowsOf(treeOf(spans), new Set(folded)).map((row) => `${"-".repeat(row.depth)}${row.span.span_id}`);

describe("the tree of a trace", () => {
  it("puts children below their parents in order of their start", () => {
    expect(ids([span("b", "r", 5), span("a", "r", 2), span("r", null, 0), span("c", "a", 3)])).toEqual(["r", "-a", "--c", "-b"]);
  });
  it("shows a span whose parent was never received as a root, marked", () => {
    const roots = treeOf([span("r", null), span("lost", "absent", 4)]);
    expect(roots.map((node) => [node.span.span_id, node.orphan])).toEqual([["r", false], ["lost", true]]);
  });
  it("keeps every span of a cycle once", () => {
    expect(ids([span("a", "b", 1), span("b", "c", 2), span("c", "a", 3), span("self", "self", 4)]).sort()).toEqual(
      ["-c", "--b", "a", "self"].sort(),
    );
  });
  it("keeps the first of two spans of one id", () => {
    expect(ids([span("a", null, 1), span("a", null, 2)])).toEqual(["a"]);
  });
  it("leaves out what is below a folded span, and counts its spans and errors", () => {
    const spans = [span("r", null), span("a", "r", 1), span("b", "a", 2, 3, "error"), span("c", "r", 4)];
    expect(ids(spans, ["a"])).toEqual(["r", "-a", "-c"]);
    expect(treeOf(spans)[0]).toMatchObject({ below: 3, errorsBelow: 1 });
  });
  it("takes a chain of 50,000 spans without recursion", () => {
    const chain = Array.from({ length: 50_000 }, (_, at) => span(`s${at}`, at ? `s${at - 1}` : null, at));
    expect(rowsOf(treeOf(chain), new Set()).at(-1)?.depth).toBe(49_999);
  });
  it("draws bars inside the lane when clocks run backwards", () => {
    const spans = [span("a", null, 100, 40), span("b", "a", 60, 80)];
    const extent = extentOf(spans);
    expect(extent).toEqual({ start: 40, length: 60 });
    for (const each of spans) {
      const bar = barOf(each, extent);
      expect(bar.left).toBeGreaterThanOrEqual(0);
      expect(bar.left + bar.width).toBeLessThanOrEqual(1);
    }
  });
  it("has an extent without spans", () => {
    expect(extentOf([])).toEqual({ start: 0, length: 1 });
  });
  it("names the spans above one, also in a cycle", () => {
    expect(pathTo([span("a", "b"), span("b", "a")], "a")).toEqual(["b"]);
    expect(pathTo([span("r", null), span("a", "r"), span("b", "a")], "b")).toEqual(["a", "r"]);
  });
});
