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
