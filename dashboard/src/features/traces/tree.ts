// The tree of a trace's spans, flattened into the rows that tree and timeline share. O(n), without
// recursion: real traces are thousands of spans deep.

export interface SpanLike {
  span_id: string;
  parent_id: string | null;
  start_ns: number;
  end_ns: number;
  status: string;
}

export interface Node<S extends SpanLike> {
  span: S;
  depth: number;
  children: Node<S>[];
  /** Spans below it. */
  below: number;
  /** Failed spans below it. */
  errorsBelow: number;
  /** Its parent was never received, or its parents form a cycle: it is shown as a root. */
  orphan: boolean;
}

/** Roots of the spans' tree, children in order of their start. Every span is in it exactly once. */
export function treeOf<S extends SpanLike>(spans: readonly S[]): Node<S>[] {
  const nodes = new Map<string, Node<S>>();
  for (const span of spans)
    if (!nodes.has(span.span_id))
      nodes.set(span.span_id, { span, depth: 0, children: [], below: 0, errorsBelow: 0, orphan: false });
  const all = [...nodes.values()].sort((one, other) => one.span.start_ns - other.span.start_ns);
  const roots: Node<S>[] = [];
  for (const node of all) {
    const parent = node.span.parent_id ? nodes.get(node.span.parent_id) : undefined;
    if (parent && parent !== node) parent.children.push(node);
    else {
      node.orphan = Boolean(node.span.parent_id);
      roots.push(node);
    }
  }
  const order = walk(roots);
  if (order.length < all.length) {
    // What no root reaches is a cycle: it is cut above its earliest span.
    const reached = new Set(order);
    for (const node of all) {
      if (reached.has(node)) continue;
      const parent = nodes.get(node.span.parent_id ?? "");
      if (parent) parent.children.splice(parent.children.indexOf(node), 1);
      node.orphan = true;
      roots.push(node);
      for (const each of walk([node])) {
        reached.add(each);
        order.push(each);
      }
    }
  }
  for (let at = order.length - 1; at >= 0; at--) {
    const node = order[at]!;
    for (const child of node.children) {
      node.below += child.below + 1;
      node.errorsBelow += child.errorsBelow + (child.span.status === "error" ? 1 : 0);
    }
  }
  return roots;
}

/** Nodes below the roots, parents first; also sets their depth. */
function walk<S extends SpanLike>(roots: Node<S>[]): Node<S>[] {
  const order: Node<S>[] = [];
  const open = [...roots].reverse();
  for (const root of roots) root.depth = 0;
  while (open.length > 0) {
    const node = open.pop()!;
    order.push(node);
    for (let at = node.children.length - 1; at >= 0; at--) {
      const child = node.children[at]!;
      child.depth = node.depth + 1;
      open.push(child);
    }
  }
  return order;
}

/** The rows on the screen: those below a folded node are left out. */
export function rowsOf<S extends SpanLike>(roots: Node<S>[], folded: ReadonlySet<string>): Node<S>[] {
  const rows: Node<S>[] = [];
  const open = [...roots].reverse();
  while (open.length > 0) {
    const node = open.pop()!;
    rows.push(node);
    if (folded.has(node.span.span_id)) continue;
    for (let at = node.children.length - 1; at >= 0; at--) open.push(node.children[at]!);
  }
  return rows;
}

export interface Extent {
  start: number;
  length: number;
}

/** First start and whole length of the spans, in nanoseconds; clocks may run backwards. */
export function extentOf(spans: readonly SpanLike[]): Extent {
  let start = Infinity;
  let end = -Infinity;
  for (const span of spans) {
    start = Math.min(start, span.start_ns, span.end_ns);
    end = Math.max(end, span.start_ns, span.end_ns);
  }
  return Number.isFinite(start) ? { start, length: Math.max(end - start, 1) } : { start: 0, length: 1 };
}

/** Where a span's bar lies, as fractions of the whole. */
export function barOf(span: SpanLike, extent: Extent): { left: number; width: number } {
  const first = Math.min(span.start_ns, span.end_ns);
  const last = Math.max(span.start_ns, span.end_ns);
  return { left: (first - extent.start) / extent.length, width: (last - first) / extent.length };
}

/** Ids of the spans above a span, so that it can be unfolded; empty for an unknown one. */
export function pathTo<S extends SpanLike>(spans: readonly S[], id: string): string[] {
  const parents = new Map(spans.map((span) => [span.span_id, span.parent_id]));
  const path: string[] = [];
  const seen = new Set([id]);
  for (let at = parents.get(id); at && !seen.has(at); at = parents.get(at)) {
    path.push(at);
    seen.add(at);
  }
  return path;
}
