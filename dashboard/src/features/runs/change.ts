// How much more or less something is than the source's, in percent.

/** "−62 %"; empty where either is unknown, or where they round to the same. */
export function change(value: number | null | undefined, source: number | null | undefined): string {
  if (value == null || !source) return "";
  const percent = Math.round(100 * (value / source - 1));
  return percent ? `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %` : "";
}
