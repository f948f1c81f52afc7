// Which of a card's outputs each of its figures was computed from.
import type { Schemas } from "../../api/client";

type Card = Schemas["ReportCard"];
type Output = Schemas["CardOutput"];

export const POINT = "calibration at ";

const judged = (output: Output) => output.score != null && output.label != null && output.label !== 0.5;

const KINDS: Record<string, (output: Output) => boolean> = {
  scored: (output) => output.score != null,
  unscored: (output) => output.score == null,
  labelled: judged,
  "called right": (output) => judged(output) && output.label! > 0.5,
  "called wrong": (output) => judged(output) && output.label! < 0.5,
};

const KIND_OF: Record<string, string> = {
  kappa: "labelled", AUROC: "labelled", "beats a constant": "labelled", "calibration error": "labelled",
  "true positive rate": "called right", "true negative rate": "called wrong", length: "scored", unscored: "unscored",
};

/** The outputs of each group, by its name. Points of the reliability curve take the labelled ones in the order of their scores. */
export function groupsOf(card: Card): Map<string, Output[]> {
  const groups = new Map(Object.entries(KINDS).map(([kind, fits]) => [kind, card.outputs.filter(fits)]));
  const labelled = [...groups.get("labelled")!].sort((one, other) => one.score! - other.score!);
  let begin = 0;
  for (const [at, point] of pointsOf(card).entries()) groups.set(pointName(at), labelled.slice(begin, (begin += point.n)));
  return groups;
}

export function pointsOf(card: Card): Schemas["CardCheck"][] {
  return card.checks.filter((check) => check.name.startsWith(POINT));
}

export function pointName(at: number): string {
  return `point ${at + 1} of the curve`;
}

/** The group of outputs that a check counts; none where it scored changed copies, which are not kept. */
export function groupOf(check: Schemas["CardCheck"], groups: Map<string, Output[]>): string | undefined {
  const kind = KIND_OF[check.name];
  const count = check.name === "unscored" ? Math.round((check.value ?? 0) * check.n) : check.n;
  return kind !== undefined && count > 0 && groups.get(kind)?.length === count ? kind : undefined;
}
