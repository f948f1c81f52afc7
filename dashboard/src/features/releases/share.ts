// Which calls get a release, in words. Nothing here knows React.
import type { Schemas } from "../../api/client";
import { number, short } from "../../lib/format";

const percent = (share: number): string => `${number(Math.round(1000 * share) / 10)} %`;

/**
 * The share of an agent's live calls that a candidate gets.
 *
 * `active` is what the agent's calls get, `split` its newest canary: of the units that it enrols,
 * half get the canary's candidate.
 */
export function liveShare(candidate: string, active: string | undefined, split: Schemas["TrafficSplit"] | undefined): string {
  const canary = split?.experiment_id ? split.enrolled / 2 : 0;
  if (canary > 0 && split?.candidate_id === candidate) return `${percent(canary)} of conversations or users, as a canary`;
  if (active !== candidate) return "none: another version is active";
  if (canary > 0) return `${percent(1 - canary)} of conversations or users; ${percent(canary)} get the canary ${short(split?.candidate_id ?? "")}`;
  return "all";
}
