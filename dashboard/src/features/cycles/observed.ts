// Which of the calls that a stage looked at each of its figures counts.
import type { Schemas } from "../../api/client";

type Call = Schemas["StageCall"];

export const WHICH = ["baseline", "candidate", "before", "without a score", "blocked"] as const;
export type Which = (typeof WHICH)[number];

/** The calls of a stage: all, or those that one of its figures counts, in one group of the traffic or in all. */
export function callsOf(calls: Call[], { stage, which, group, metric }: { stage?: string; which?: string; group?: string; metric?: string }): Call[] {
  return calls.filter((call) => (stage === undefined || call.stage === stage) && (group === undefined || call.group === group) && (which === undefined || counts(call, which, metric)));
}

function counts(call: Call, which: string, metric?: string): boolean {
  if (which === "blocked") return call.blocked;
  if (which === "without a score") return !call.blocked && call.part !== "before" && !isScored(call);
  if (call.part === "pair") return which !== "before" && !call.blocked && isScored(call);
  return call.part === which && (which === "before" || isKnown(call, metric));
}

function isScored(call: Call): boolean {
  if (call.part === "pair") return call.baseline != null && call.candidate != null;
  return (call.part === "candidate" ? call.candidate : call.baseline) != null;
}

/** A watch may end by a metric other than the score. */
function isKnown(call: Call, metric?: string): boolean {
  if (metric === "errors" || metric === "latency") return true;
  return metric === "cost" ? call.cost_usd != null : isScored(call);
}
