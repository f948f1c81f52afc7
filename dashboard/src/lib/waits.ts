import type { Schemas } from "../api/client";

/** What a run waits for and how long, as it was at `now` in Unix seconds: `waiting for the coach, 95 s`. */
export function awaited(waits: Schemas["LongWait"][], now: number): string {
  return waits.map((wait) => `waiting for ${wait.what}, ${Math.max(0, Math.round(now - wait.since))} s`).join("; ");
}
