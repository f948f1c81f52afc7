// How many pairs the candidate won, lost and left level: the answer before its evidence.
import { number } from "../../lib/format";
import { type Evidence, type EvidencePair, gainOf } from "./recompute";

/** What a pair can be, by its difference. */
export function IS(evidence: Evidence) {
  const gain = (pair: EvidencePair) => gainOf(evidence, pair) ?? 0;
  return {
    won: (pair: EvidencePair) => !pair.missing && gain(pair) > 0,
    lost: (pair: EvidencePair) => !pair.missing && gain(pair) < 0,
    level: (pair: EvidencePair) => !pair.missing && gain(pair) === 0,
    "without a score": (pair: EvidencePair) => pair.missing,
    labelled: (pair: EvidencePair) => pair.labels != null,
  };
}

const OUTCOMES = ["won", "lost", "level"] as const;

function counts(evidence: Evidence) {
  const is = IS(evidence);
  return OUTCOMES.map((outcome) => ({ outcome, count: evidence.pairs.filter(is[outcome]).length }));
}

/** `24 won, 3 lost, 27 level` */
export const tallyOf = (evidence: Evidence): string =>
  counts(evidence)
    .map(({ outcome, count }) => `${number(count)} ${outcome}`)
    .join(", ");

export function Tally({ of }: { of: Evidence }) {
  return (
    <div className="tally" role="img" aria-label={tallyOf(of)}>
      {counts(of).map(({ outcome, count }) => count > 0 && <span key={outcome} className={outcome} style={{ flex: count }} title={`${number(count)} ${outcome}`} />)}
    </div>
  );
}
