/** The page of a thing. A candidate has none of its own: it is shown within its run. */
const PLACES: Record<string, string> = {
  trace: "/traces",
  problem: "/problems",
  rollout: "/rollouts",
  conversation: "/conversations",
  run: "/runs",
  candidate: "/candidates",
  experiment: "/experiments",
  release: "/releases",
  cycle: "/cycles",
  dataset: "/datasets",
  evaluator: "/evaluators",
  training: "/training",
};

export function pathOf(kind: string, id: string): string {
  return `${PLACES[kind] ?? ""}/${encodeURIComponent(id)}`;
}
