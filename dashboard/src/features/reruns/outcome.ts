// What became of a rerun, in words. Nothing here knows React.
import type { Schemas } from "../../api/client";
import { counted, quoted } from "../../lib/format";

type Comparison = Schemas["RerunComparison"];

/** A rollout in one of these states changes no more. */
const FINAL = new Set(["succeeded", "failed", "timed_out", "crashed", "inconclusive", "cancelled"]);

export const hasEnded = (status: string): boolean => FINAL.has(status);

/** Where a rerun stands, as a sentence. */
export function standing({ rerun, original, queue, runners }: Pick<Comparison, "rerun" | "original" | "queue" | "runners">): string {
  if (rerun.status === "queued") return runners.length ? `Waits in the queue ${queue}, which ${counted(runners.length, "runner serves", "runners serve")}.` : `Waits in the queue ${queue}: no runner of this server serves it.`;
  if (rerun.status === "running") return "A runner has claimed it and runs it.";
  if (rerun.status === "cancelled") return "It was cancelled and has not run.";
  if (!original) return "It has ended. The original has been deleted, so there is nothing to compare.";
  if (rerun.status !== original.status) return `The original ${did(original.status)}, the rerun ${did(rerun.status)}.`;
  if (rerun.status !== "succeeded") return `Both ${did(rerun.status)}.`;
  return sameValue(rerun.output, original.output) ? "The output is the same." : "The outputs differ.";
}

const did = (status: string): string => ({ succeeded: "succeeded", failed: "failed", timed_out: "timed out", crashed: "crashed" })[status] ?? `is ${status}`;

/** Whether two JSON values are equal, whatever the order of their fields. */
export function sameValue(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const [left, right] = [one as Record<string, unknown>, other as Record<string, unknown>];
  const names = Object.keys(left);
  return names.length === Object.keys(right).length && names.every((name) => name in right && sameValue(left[name], right[name]));
}

/** The command that serves a queue, as it is typed where the agent's code is. */
export function runnerCommand(server: string, queue: string): string {
  return `ratchet runner --server ${server} --queue ${quoted(queue)}`;
}
