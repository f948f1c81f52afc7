import { expect, it } from "vitest";
import { lineage } from "./tree";

const candidate = (candidate_id: string, ...parents: string[]) => ({ candidate_id, parents });
const shown = (...of: ReturnType<typeof candidate>[]) => lineage(of).map((row) => "-".repeat(row.depth) + row.candidate.candidate_id);

it("puts children after their parent, in the order of judging", () => {
  expect(shown(candidate("s"), candidate("a", "s"), candidate("b", "s"), candidate("c", "a"))).toEqual(["s", "-a", "--c", "-b"]);
});
it("shows a candidate whose parents belong to no run as a root", () => {
  expect(shown(candidate("a", "elsewhere"), candidate("b", "a"))).toEqual(["a", "-b"]);
});
it("takes the first parent that is in the run", () => {
  expect(shown(candidate("a"), candidate("b"), candidate("c", "gone", "b", "a"))).toEqual(["a", "b", "-c"]);
});
it("shows each of a cycle once", () => {
  expect(shown(candidate("a", "b"), candidate("b", "a")).map((row) => row.replaceAll("-", ""))).toEqual(["a", "b"]);
});
