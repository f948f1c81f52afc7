/** Chooses the versions of a live call: of the release, or of a canary's candidate. */

import { armOf, unitDigest, type TrafficSplit } from "./arms";
import { resourcesOf, serve, type Resources } from "./resources";

export const CANDIDATE = "ratchet.candidate_id";
export const EXPERIMENT = "ratchet.experiment_id";
export const ARM = "ratchet.arm";
export const UNIT = "ratchet.unit";

const KEPT_MS = 24 * 3_600_000;
const CONVERSATIONS = 10_000;

/** What a live agent runs, as the server tells it. */
export interface LiveVersions {
  /** The active candidate; empty for the agent's own source. */
  readonly release_id: string;
  readonly release: Resources;
  /** This release and the earlier ones that newer ones replaced, but none that was withdrawn. */
  readonly standing: readonly string[];
  readonly split: TrafficSplit | undefined;
  readonly candidate: Resources;
}

/** The versions of one live call, and the attributes that say so. */
export interface CallVersions {
  readonly resources: Resources;
  readonly attributes: Readonly<Record<string, string>>;
}

interface Kept {
  readonly candidate: string;
  readonly versions: CallVersions;
  readonly until: number;
}

/** Reads versions from JSON; undefined if it has another form. */
export function versionsOf(json: unknown): LiveVersions | undefined {
  if (typeof json !== "object" || json === null) return undefined;
  const found = json as Record<string, unknown>;
  const release = resourcesOf(found["release"] ?? {});
  const candidate = resourcesOf(found["candidate"] ?? {});
  const { release_id: releaseId = "", standing = [""], split } = found;
  if (!release || !candidate || typeof releaseId !== "string" || !Array.isArray(standing)) {
    return undefined;
  }
  return {
    release_id: releaseId,
    release,
    standing: standing as string[],
    split: isSplit(split) ? split : undefined,
    candidate,
  };
}

function isSplit(json: unknown): json is TrafficSplit {
  const { experiment_id: id, enrolled } = (json ?? {}) as Record<string, unknown>;
  return typeof id === "string" && id !== "" && typeof enrolled === "number";
}

/** Chooses versions as `ratchet.bind.live` does, so that each unit gets the same in any language. */
export class Chooser {
  #served: LiveVersions | undefined;
  #release: CallVersions = { resources: {}, attributes: {} };
  /** In the order of their last use. */
  readonly #kept = new Map<string, Kept>();

  /**
   * @param clock Monotonic clock in milliseconds.
   * @param conversations Most conversations whose version is remembered.
   */
  constructor(
    private readonly clock: () => number = () => performance.now(),
    private readonly conversations = CONVERSATIONS,
  ) {}

  /** Chooses among these from now on; undefined for the agent's own source. */
  serve(versions: LiveVersions | undefined): void {
    this.#served = versions;
    if (versions === undefined) this.#kept.clear();
    const id = versions?.release_id;
    this.#release = {
      resources: versions?.release ?? {},
      attributes: id ? { [CANDIDATE]: id } : {},
    };
    serve(this.#release.resources);
  }

  /**
   * The versions of a call that begins now.
   *
   * @param unit What a canary's assignment is constant for.
   * @param conversation Whether the unit is a conversation, which keeps its version.
   */
  choose(unit: string, conversation: boolean): CallVersions {
    const served = this.#served;
    if (served === undefined || (!conversation && !served.split)) return this.#release;
    const kept = conversation ? this.#keptOf(unit, served) : undefined;
    if (kept) return kept;
    const { candidate, versions } = this.#assigned(unit, served);
    if (conversation) {
      this.#kept.set(unit, { candidate, versions, until: this.clock() + KEPT_MS });
      if (this.#kept.size > this.conversations) {
        for (const oldest of this.#kept.keys()) {
          this.#kept.delete(oldest);
          break;
        }
      }
    }
    return versions;
  }

  #assigned(unit: string, served: LiveVersions): { candidate: string; versions: CallVersions } {
    const { split, release_id: releaseId } = served;
    const arm = split && armOf(split, unit);
    if (!split || !arm) return { candidate: releaseId, versions: this.#release };
    const treated = arm === "candidate";
    const candidate = treated ? split.candidate_id : releaseId;
    const attributes: Record<string, string> = {
      [EXPERIMENT]: split.experiment_id,
      [ARM]: arm,
      [UNIT]: unitDigest(unit),
    };
    if (candidate) attributes[CANDIDATE] = candidate;
    const resources = treated ? served.candidate : served.release;
    return { candidate, versions: { resources, attributes } };
  }

  /** What the conversation began with, unless that was withdrawn. */
  #keptOf(unit: string, { split, standing }: LiveVersions): CallVersions | undefined {
    const kept = this.#kept.get(unit);
    if (!kept) return undefined;
    this.#kept.delete(unit);
    const experiment = kept.versions.attributes[EXPERIMENT];
    const ended = experiment !== undefined && split?.experiment_id !== experiment;
    const withdrawn = !standing.includes(kept.candidate);
    const tried = !ended && split !== undefined && kept.candidate === split.candidate_id;
    if (this.clock() >= kept.until || (withdrawn && !tried)) return undefined;
    let { versions } = kept;
    if (ended) {
      // The version stands, as the release that it became or was.
      const attributes: Record<string, string> = kept.candidate ? { [CANDIDATE]: kept.candidate } : {};
      versions = { resources: versions.resources, attributes };
    }
    this.#kept.set(unit, { ...kept, versions });
    return versions;
  }
}
