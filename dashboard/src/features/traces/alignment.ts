// Which span of one trace stands for which of another: those of the same kind, name and depth, in the
// same order; the rest is only in one of them.
import { diffArrays } from "diff";
import type { Node, SpanLike } from "./tree";

export interface Aligned<S extends SpanLike> {
  one?: Node<S>;
  other?: Node<S>;
}

interface Named extends SpanLike {
  name: string;
  operation: string;
}

export function align<S extends Named>(one: readonly Node<S>[], other: readonly Node<S>[]): Aligned<S>[] {
  const key = (node: Node<S>) => `${node.depth} ${node.span.operation} ${node.span.name}`;
  const rows: Aligned<S>[] = [];
  let [left, right] = [0, 0];
  for (const change of diffArrays(one.map(key), other.map(key))) {
    for (let at = 0; at < change.value.length; at++) {
      if (change.removed) rows.push({ one: one[left++] });
      else if (change.added) rows.push({ other: other[right++] });
      else rows.push({ one: one[left++], other: other[right++] });
    }
  }
  return rows;
}
