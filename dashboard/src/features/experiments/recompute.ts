// Recomputes a decision from its evidence file, in this browser: every e-value of every pair, the
// verdict's conditions, the means, and the file's digest.
import { canonical, parse } from "./canonical";
import { EProcess } from "./eprocess";

interface GuardrailPlan {
  metric: string;
  margin: number;
  scale: number;
  unit: string;
  lower_is_better: boolean;
  aggregate: string;
  floor: number;
}

export interface EvidencePair {
  pair: number;
  task: string;
  baseline: number | null;
  candidate: number | null;
  missing: boolean;
  metrics: Record<string, [number | null, number | null]>;
  rollouts?: [string, string];
  repetitions?: { baseline: number | null; candidate: number | null }[];
  labels?: [number | null, number | null] | null;
  e_values: { superiority: number; harm: number; futility: number; guardrails: Record<string, number>; labels?: number };
}

/** A frozen set of a fixed problem, as the plan states it. */
interface FrozenGuardrail {
  set_id: string;
  title: string;
  tasks: string[];
  margin: number;
  /** Maximum number of draws of this set. */
  draws: number;
  seed: string;
}

/** One draw of a frozen set: a task that was run once with either candidate. */
export interface EvidenceDraw {
  draw: number;
  set: string;
  task: string;
  baseline: number | null;
  candidate: number | null;
  e_value: number;
}

export interface Evidence {
  schema: string;
  plan: {
    metric: string;
    alpha: number;
    min_gain: number;
    /** How much lower the candidate may score; left out where it has to be better. */
    margin?: number;
    harm_alpha: number;
    futility_alpha: number;
    guardrails: GuardrailPlan[];
    min_pairs: number;
    max_pairs: number;
    labels?: number;
    missing?: "worst" | "skip";
    stages?: number[];
    /** Left out where no frozen set guards the experiment. */
    frozen?: { sets: FrozenGuardrail[]; draws: number };
  };
  decision: { verdict: string; e_value: number; interval: [number, number]; baseline: number; candidate: number; pairs: number };
  means: { baseline: number; candidate: number; gain: number };
  pairs: EvidencePair[];
  draws?: EvidenceDraw[];
  digest: string;
}

export interface Check {
  what: string;
  /** None: it cannot be checked in a browser; `why` says so. */
  holds: boolean | null;
  why: string;
}

/** Read the evidence file's text. Throws when it is no evidence. */
export function readEvidence(text: string): Evidence {
  const found = JSON.parse(text) as Partial<Evidence> & { observations?: unknown };
  if (!found.plan || !Array.isArray(found.pairs) || !found.decision) throw new Error("This evidence has no pairs.");
  return found as Evidence;
}

/** By how much the candidate was worse, in [-1, 1], as in ratchet.prove.guardrails. */
function worsening(guardrail: GuardrailPlan, baseline: number, candidate: number): number {
  const worse = guardrail.lower_is_better ? candidate - baseline : baseline - candidate;
  if (guardrail.aggregate === "relative") {
    const largest = Math.max(baseline, candidate, guardrail.floor);
    return largest > 0 ? worse / largest : 0;
  }
  return Math.max(-1, Math.min(1, worse / guardrail.scale));
}

function boundOf(guardrail: GuardrailPlan): number {
  if (guardrail.aggregate === "mean") return guardrail.margin / guardrail.scale;
  return guardrail.lower_is_better ? guardrail.margin / (1 + guardrail.margin) : guardrail.margin;
}

/** What a missing baseline and a missing candidate count as, by the claim; as in ratchet.prove.missing. */
const AGAINST_BETTER = [1, 0] as const;
const AGAINST_WORSE = [0, 1] as const;

/** Scores of both sides, with these values for runs that have none. */
function filled(pair: EvidencePair, [before, after]: readonly [number, number]): [number, number] {
  const runs = pair.repetitions?.length ? pair.repetitions : [{ baseline: null, candidate: null }];
  const side = (name: "baseline" | "candidate", fill: number) => pair[name] ?? runs.reduce((total, run) => total + (run[name] ?? fill), 0) / runs.length;
  return [side("baseline", before), side("candidate", after)];
}

/** Files of the older layouts do not state the rule: they skipped what was missing. */
const skips = (evidence: Evidence) => evidence.plan.missing !== "worst";

/** Candidate minus baseline, as the claim “better” counts it; null for a pair that was skipped. */
export function gainOf(evidence: Evidence, pair: EvidencePair): number | null {
  if (pair.missing && skips(evidence)) return null;
  const [before, after] = filled(pair, AGAINST_BETTER);
  return after - before;
}

export async function recompute(text: string): Promise<Check[]> {
  const evidence = readEvidence(text);
  const { plan, pairs } = evidence;
  const horizon = (seen: number) => plan.stages?.find((total) => total > seen) ?? plan.max_pairs;
  const margin = plan.margin ?? 0;
  // 0 - margin: a null of -0 would give different bits from a null of 0.
  const superiority = new EProcess(0 - margin, 1 / plan.alpha, horizon(0));
  const harm = new EProcess(margin, 1 / plan.harm_alpha, horizon(0));
  const futility = new EProcess(margin - plan.min_gain, 1 / plan.futility_alpha, horizon(0));
  const guardrails = plan.guardrails.map((guardrail) => ({
    guardrail,
    process: new EProcess(-boundOf(guardrail), 1 / plan.alpha, horizon(0)),
  }));
  const processes = [superiority, harm, futility, ...guardrails.map((each) => each.process)];
  const skipping = skips(evidence);
  const differing: number[] = [];
  const totals = { better: [0, 0] as [number, number], worse: [0, 0] as [number, number] };
  let counted = 0;
  for (const [seen, pair] of pairs.entries()) {
    for (const process of processes) process.horizon = horizon(seen);
    if (pair.missing && skipping) {
      for (const process of processes) process.skip();
    } else {
      const better = filled(pair, AGAINST_BETTER);
      const worse = filled(pair, AGAINST_WORSE);
      superiority.observe(better[1] - better[0]);
      harm.observe(worse[0] - worse[1]);
      futility.observe(worse[0] - worse[1]);
      for (const { guardrail, process } of guardrails) {
        const [baseline, candidate] = pair.metrics[guardrail.metric] ?? [null, null];
        if (baseline != null && candidate != null) process.observe(-worsening(guardrail, baseline, candidate));
        else if (skipping) process.skip();
        else process.observe(-1);
      }
      totals.better = [totals.better[0] + better[0], totals.better[1] + better[1]];
      totals.worse = [totals.worse[0] + worse[0], totals.worse[1] + worse[1]];
      counted += 1;
    }
    const stated = pair.e_values;
    const same =
      Object.is(stated.superiority, superiority.value) &&
      Object.is(stated.harm, harm.value) &&
      Object.is(stated.futility, futility.value) &&
      guardrails.every(({ guardrail, process }) => Object.is(stated.guardrails[guardrail.metric], process.value));
    if (!same) differing.push(pair.pair);
  }
  const verdict = evidence.decision.verdict;
  const [before, after] = verdict === "harm" || verdict === "futile" ? totals.worse : totals.better;
  const means = counted ? [before / counted, after / counted] : [0, 0];
  const passed = guardrails.every(({ process }) => process.reached);
  const frozen = plan.frozen ? await recomputeDraws(plan.frozen, evidence.draws ?? [], plan.alpha) : null;
  const checks: Check[] = [
    {
      what: `e-values of all ${pairs.length} pairs`,
      holds: differing.length === 0,
      why: differing.length ? `They differ from pair ${differing[0]} on.` : "The same bits as stated, pair by pair.",
    },
    {
      what: "means and gain",
      holds: Object.is(means[0], evidence.means.baseline) && Object.is(means[1], evidence.means.candidate),
      why: `${means[0]} and ${means[1]} over ${counted} pairs.`,
    },
    {
      what: `verdict “${verdict}”`,
      holds: verdictHolds(verdict, {
        better: superiority.reached,
        worse: harm.reached,
        small: futility.reached,
        passed: passed && (frozen?.passed ?? true),
      }),
      why: `Better: ${yes(superiority.reached)}; worse: ${yes(harm.reached)}; gain below the smallest one: ${yes(futility.reached)}; guardrails: ${yes(passed)}${frozen ? `; frozen sets: ${yes(frozen.passed)}` : ""}.`,
    },
    ...(frozen ? [frozen.check] : []),
    await digestCheck(text, evidence.digest),
  ];
  if (plan.labels)
    checks.push({ what: "people's labels", holds: null, why: "Their e-value is recomputed by: ratchet verify" });
  return checks;
}

/** The e-value after each draw of a frozen set, and that the set's seed draws that task. */
async function recomputeDraws(plan: NonNullable<Evidence["plan"]["frozen"]>, draws: EvidenceDraw[], alpha: number): Promise<{ passed: boolean; check: Check }> {
  const sets = new Map(plan.sets.map((set) => [set.set_id, { set, seen: 0, process: new EProcess(-set.margin, 1 / alpha, set.draws) }]));
  const what = `draws of ${plan.sets.length} frozen ${plan.sets.length === 1 ? "set" : "sets"}`;
  const fault = (why: string) => ({ passed: false, check: { what, holds: false, why } });
  if (draws.length > plan.draws) return fault(`There are ${draws.length}, and at most ${plan.draws} were planned.`);
  for (const draw of draws) {
    const state = sets.get(draw.set);
    if (!state || state.seen >= state.set.draws) return fault(`Draw ${draw.draw} is of no set that was planned, or one too many.`);
    const task = await drawnTask(state.set, state.seen);
    if (task !== null && task !== draw.task) return fault(`Draw ${draw.draw} is task ${draw.task}, but its seed draws ${task}.`);
    state.seen += 1;
    const { baseline, candidate } = draw;
    state.process.observe(baseline === null || candidate === null ? -1 : -(baseline - candidate));
    if (!Object.is(state.process.value, draw.e_value)) return fault(`They differ from draw ${draw.draw} on.`);
  }
  const passed = [...sets.values()].every(({ process }) => process.reached);
  const why = draws.length ? `The same bits as stated, draw by draw; all sets: ${yes(passed)}.` : "None was run: the pairs did not promote the candidate.";
  return { passed, check: { what, holds: true, why } };
}

/** The task of a draw, as in ratchet.prove.frozen_plan; null where the browser offers no SHA-256. */
async function drawnTask(set: FrozenGuardrail, number: number): Promise<string | null> {
  if (!globalThis.crypto?.subtle) return null;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${set.seed}/${number}`));
  const point = new DataView(hash).getBigUint64(0);
  return set.tasks[Number(point % BigInt(set.tasks.length))] ?? null;
}

function verdictHolds(verdict: string, found: { better: boolean; worse: boolean; small: boolean; passed: boolean }): boolean | null {
  if (verdict === "promote" || verdict === "unconfirmed") return found.better && found.passed && !found.worse;
  if (verdict === "harm") return found.worse;
  if (verdict === "futile") return found.small && !found.worse;
  if (verdict === "guardrail") return found.better && !found.passed;
  if (verdict === "not_proved") return !found.worse && !found.small;
  if (verdict === "no_gain") return !found.better && !found.worse && !found.small;
  return null;
}

const yes = (value: boolean) => (value ? "proved" : "not proved");

async function digestCheck(text: string, stated: string): Promise<Check> {
  const what = "digest of the file";
  if (!globalThis.crypto?.subtle) return { what, holds: null, why: "This page came over plain HTTP, where browsers offer no SHA-256; use: ratchet verify" };
  const bytes = new TextEncoder().encode(canonical(parse(text), "digest"));
  const hash = await crypto.subtle.digest("SHA-256", bytes);
  const found = [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { what, holds: found === stated, why: found === stated ? `${found.slice(0, 16)}… as stated.` : `It is ${found.slice(0, 16)}…, stated is ${stated.slice(0, 16)}….` };
}
