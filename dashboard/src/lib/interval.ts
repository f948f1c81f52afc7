/**
 * Wilson's 95 % interval of a mean of values in [0, 1]. For shares it is the usual one; for other
 * values it is wider than needed, since no values between 0 and 1 vary more than right and wrong do.
 */
export function wilson(mean: number, n: number): [number, number] | null {
  if (n <= 0 || !Number.isFinite(mean)) return null;
  const z = 1.959964;
  const middle = mean + (z * z) / (2 * n);
  const half = z * Math.sqrt((mean * (1 - mean)) / n + (z * z) / (4 * n * n));
  const whole = 1 + (z * z) / n;
  return [Math.max(0, (middle - half) / whole), Math.min(1, (middle + half) / whole)];
}

/** Distance from 0 up to which a bound is at 0: where a proof ends, it is there by construction. */
const BY_CONSTRUCTION = 1e-6;

/** The bounds of an interval of a difference as text; none is a zero that it is not: `[above 0, +0.530]`. */
export function ends(interval: readonly number[], digits = 3): string {
  const [low = 0, high = 0] = interval;
  const first = Math.abs(low) <= BY_CONSTRUCTION;
  const last = Math.abs(high) <= BY_CONSTRUCTION;
  if (first && last) return "[0, 0]";
  return `[${first ? "above 0" : bound(low, digits)}, ${last ? "below 0" : bound(high, digits)}]`;
}

function bound(value: number, digits: number): string {
  const text = value.toFixed(digits);
  const shown = Number(text) === 0 ? value.toPrecision(1) : text;
  return value > 0 ? `+${shown}` : shown.replace("-", "−");
}
