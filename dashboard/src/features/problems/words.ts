// What a problem is, in words. Nothing here knows React.
import type { Schemas } from "../../api/client";
import { number } from "../../lib/format";

type Kind = Schemas["Problem"]["kind"];
type State = Schemas["Problem"]["state"];

const KINDS: Record<Kind, string> = {
  error: "error",
  low_score: "low score",
  negative_feedback: "negative feedback",
  retry: "asked again",
  abandonment: "abandoned",
  loop: "loop",
  refusal: "refusal",
  guardrail: "guardrail hit",
  cut_off: "cut off",
};

/** The kind of a failure, for a badge. */
export const kindOf = (kind: Kind): string => KINDS[kind];

const SAID: Record<Kind, string> = {
  error: "A step failed with an error.",
  low_score: "An evaluator scored the answer low.",
  negative_feedback: "Users said that the answer was wrong.",
  retry: "Users had to ask again.",
  abandonment: "Users left without an answer.",
  loop: "The same tool was called repeatedly with the same arguments.",
  refusal: "The agent refused to answer.",
  guardrail: "A guardrail or content filter stopped the answer.",
  cut_off: "The answer ended at the token limit.",
};

/** What happens in the traces of a problem, in a sentence. */
export const saidOf = (kind: Kind): string => SAID[kind];

/** What a person may set, by the state that a problem is in. */
export const SETTABLE: Record<State, State[]> = {
  open: ["fixed", "ignored"],
  learning: ["fixed", "ignored"],
  proposed: ["fixed", "ignored"],
  returned: ["fixed", "ignored"],
  fixed: ["open", "ignored"],
  ignored: ["open"],
};

/** States in which a problem needs somebody's work. */
export const isOpen = (state: State): boolean => state !== "fixed" && state !== "ignored";

/** A share of traffic: `12 %`, `0.4 %`. */
export function shareOf(share: number): string {
  const percent = 100 * share;
  return `${percent >= 10 ? Math.round(percent) : number(percent, 2)} %`;
}

/**
 * Whether a problem grows: the second half of the window against the first, in words. Few occurrences say nothing.
 */
export function trendOf(days: readonly number[]): "rising" | "falling" | "steady" | "" {
  const half = Math.floor(days.length / 2);
  const sum = (part: readonly number[]) => part.reduce((total, each) => total + each, 0);
  const [before, after] = [sum(days.slice(0, half)), sum(days.slice(days.length - half))];
  if (before + after < 8) return "";
  if (after >= 1.5 * before) return "rising";
  return before >= 1.5 * after ? "falling" : "steady";
}
