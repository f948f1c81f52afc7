// What training runs and their metrics are called.
import { line, short } from "../../lib/format";

/** The name of a training, which begins with the id of its run. */
export function titled(name: string): string {
  return line(name.replace(/^[0-9a-f]{32}/, short), 60);
}

const ABOUT: Record<string, string> = {
  val: "mean on val: reward, or negative loss",
  reward: "mean reward of the batch",
  entropy: "entropy, nats a token",
  kl: "divergence from the base, nats a token",
  clip_share: "share of tokens whose ratio was clipped",
  truncated_share: "share of tokens whose weight was cut off",
  gap: "difference between trainer and sampler, nats a token",
  staleness: "steps by which rollouts lagged behind the weights",
  staleness_max: "most steps by which a rollout lagged behind",
  skipped_groups: "tasks whose rollouts all earned the same",
  collect_s: "waiting for the batch, seconds",
  train_s: "training on the batch, seconds",
  tokens_per_s: "tokens trained on per second",
  tokens: "tokens trained on",
};

/** A metric in words, with its unit. */
export function about(metric: string): string {
  return ABOUT[metric] ?? metric.replaceAll("_", " ");
}
