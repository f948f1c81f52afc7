/** Which arm of a canary a unit is in; the same as `ratchet.types.arm_of` says. */

import { createHash } from "node:crypto";

/** An agent's canary, as the server tells it. */
export interface TrafficSplit {
  readonly experiment_id: string;
  readonly candidate_id: string;
  /** Share of the units in the experiment, in [0, 1]. */
  readonly enrolled: number;
}

export type Arm = "baseline" | "candidate";

/** The unit's arm, or undefined when it is not enrolled. */
export function armOf(split: TrafficSplit, unit: string): Arm | undefined {
  if (!split.experiment_id) return undefined;
  if (position("enrol", split.experiment_id, unit) >= split.enrolled) return undefined;
  return position("arm", split.experiment_id, unit) < 0.5 ? "candidate" : "baseline";
}

/**
 * What a span says of a unit: a hash, as `ratchet.types.unit_digest` makes it. A unit may be a user's
 * address, which redaction would replace by the same mark for all.
 */
export function unitDigest(unit: string): string {
  return createHash("sha256").update(encoded(unit)).digest("hex").slice(0, 32);
}

/**
 * Position of a unit in [0, 1): first 53 bits of SHA-256 of the three texts, each preceded by its
 * length in bytes.
 */
function position(...parts: string[]): number {
  const hash = createHash("sha256");
  for (const part of parts) {
    const bytes = encoded(part);
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(bytes.length));
    hash.update(length).update(bytes);
  }
  return Number(hash.digest().readBigUInt64BE() >> 11n) / 2 ** 53;
}

/** UTF-8, with a lone surrogate as three bytes of its own, as Python's `surrogatepass` has it. */
function encoded(text: string): Buffer {
  if (text.isWellFormed()) return Buffer.from(text, "utf8");
  const parts: Buffer[] = [];
  for (const character of text) {
    const code = character.charCodeAt(0);
    const lone = character.length === 1 && code >= 0xd800 && code <= 0xdfff;
    parts.push(
      lone
        ? Buffer.from([0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)])
        : Buffer.from(character, "utf8"),
    );
  }
  return Buffer.concat(parts);
}
