// Candidates of a run as a tree by their first parent, in the order in which they were judged.

export interface CandidateLike {
  candidate_id: string;
  parents: string[];
}

export interface Row<C extends CandidateLike> {
  candidate: C;
  depth: number;
}

/** Every candidate once, children after their parent; parents outside the run make roots. */
export function lineage<C extends CandidateLike>(candidates: readonly C[]): Row<C>[] {
  const ids = new Set(candidates.map((candidate) => candidate.candidate_id));
  const children = new Map<string, C[]>();
  const roots: C[] = [];
  const seen = new Set<string>();
  for (const candidate of candidates) {
    if (seen.has(candidate.candidate_id)) continue;
    seen.add(candidate.candidate_id);
    const parent = candidate.parents.find((each) => ids.has(each) && each !== candidate.candidate_id);
    if (parent === undefined) roots.push(candidate);
    else children.set(parent, [...(children.get(parent) ?? []), candidate]);
  }
  const rows: Row<C>[] = [];
  const placed = new Set<string>();
  const place = (first: C[]) => {
    const open = first.map((candidate) => ({ candidate, depth: 0 })).reverse();
    while (open.length > 0) {
      const row = open.pop()!;
      if (placed.has(row.candidate.candidate_id)) continue;
      placed.add(row.candidate.candidate_id);
      rows.push(row);
      const below = children.get(row.candidate.candidate_id) ?? [];
      for (let at = below.length - 1; at >= 0; at--) open.push({ candidate: below[at]!, depth: row.depth + 1 });
    }
  };
  place(roots);
  for (const candidate of candidates) if (!placed.has(candidate.candidate_id)) place([candidate]);
  return rows;
}
