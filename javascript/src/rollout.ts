/** The rollout that this process runs, as its environment tells; see "Agents in any language". */

import { readFileSync, writeFileSync } from "node:fs";
import { ROOT_CONTEXT, trace, TraceFlags, type Context } from "@opentelemetry/api";
import { bindRollout, resourcesOf } from "./resources";

type Environment = Readonly<Record<string, string | undefined>>;

const BLOCKED_SUFFIX = ".blocked";
const REPLAY = "ratchet.replay";
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** One rollout: its parent span, and the recorded results of tools that must not act in it. */
export class Rollout {
  /** OpenTelemetry's context of what runs outside of all spans. */
  readonly root: Context;
  readonly #binding: string;
  readonly #recorded = new Map<string, unknown[]>();

  constructor(environment: Environment) {
    this.#binding = environment["RATCHET_BINDING"] ?? "";
    this.root = remoteParent(environment["TRACEPARENT"] ?? "");
    const task = jsonOf(environment["RATCHET_TASK_FILE"]) as
      | { metadata?: Record<string, unknown> }
      | undefined;
    const calls = task?.metadata?.[REPLAY];
    for (const call of Array.isArray(calls) ? calls : []) this.#record(call);
    const binding = jsonOf(this.#binding) as { resources?: unknown } | undefined;
    bindRollout(resourcesOf(binding?.resources) ?? {});
  }

  /** The recorded result of a tool's next call with these arguments, in an array; else undefined. */
  replay(tool: string, given: string): [unknown] | undefined {
    const results = this.#recorded.get(keyOf(tool, given));
    return results?.length ? [results.shift()] : undefined;
  }

  /** Makes the rollout end as `inconclusive`. */
  block(tool: string): void {
    if (!this.#binding) return;
    try {
      writeFileSync(this.#binding + BLOCKED_SUFFIX, tool);
    } catch {
      // Where the file cannot be written, the tool is blocked all the same.
    }
  }

  #record(call: unknown): void {
    if (!Array.isArray(call) || call.length !== 3) return;
    const [tool, given, result] = call as [string, string, string];
    const key = keyOf(tool, given);
    const results = this.#recorded.get(key) ?? [];
    results.push(JSON.parse(result));
    this.#recorded.set(key, results);
  }
}

/** The rollout of this process; undefined outside of rollouts. */
export const rollout: Rollout | undefined = isRollout(process.env)
  ? new Rollout(process.env)
  : undefined;

function isRollout(environment: Environment): boolean {
  return Boolean(environment["RATCHET_BINDING"] ?? environment["RATCHET_ROLLOUT_ID"]);
}

function remoteParent(traceparent: string): Context {
  const [, traceId, spanId] = TRACEPARENT.exec(traceparent.trim()) ?? [];
  if (!traceId || !spanId) return ROOT_CONTEXT;
  const parent = { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true };
  return trace.setSpanContext(ROOT_CONTEXT, parent);
}

function jsonOf(path: string | undefined): unknown {
  try {
    return path ? JSON.parse(readFileSync(path, "utf8")) : undefined;
  } catch {
    return undefined; // a child process must not fail because its parent's file is gone
  }
}

/** The same for the same arguments, in whatever order they are named. */
function keyOf(tool: string, given: string): string {
  try {
    return `${tool}\n${JSON.stringify(sorted(JSON.parse(given)))}`;
  } catch {
    return `${tool}\n${given}`;
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]));
}
