// What a rollout costs, and how much more or less something is than the source's.
import { dollars } from "../../lib/format";

/** Dollars of one rollout, which may be far below a cent: two digits that count. */
export function rolloutDollars(cost: number | null | undefined): string {
  if (cost == null || cost <= 0 || cost >= 0.0001) return dollars(cost);
  return `$${cost.toFixed(1 - Math.floor(Math.log10(cost)))}`;
}

/** "−62 %"; empty where either is unknown, or where they round to the same. */
export function change(value: number | null | undefined, source: number | null | undefined): string {
  if (value == null || !source) return "";
  const percent = Math.round(100 * (value / source - 1));
  return percent ? `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %` : "";
}
