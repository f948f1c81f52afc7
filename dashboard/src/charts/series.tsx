// Small series over time: bars of counts with their failed part, and a line for a mean.
import { Link } from "@tanstack/react-router";
import { moment, number } from "../lib/format";
import type { Where } from "../ui/basics";

export interface Point {
  at: number;
  value: number | null;
  /** The failed part of the value, drawn striped. */
  failed?: number;
}

/** Bars; with `behind`, each is a link to what it counts. */
export function Bars({ of, label, unit, height = 36, behind }: { of: Point[]; label: string; unit: string; height?: number; behind?: (at: number) => Where }) {
  const largest = Math.max(1e-12, ...of.map((point) => point.value ?? 0));
  const total = of.reduce((sum, point) => sum + (point.value ?? 0), 0);
  return (
    <svg
      width="100%"
      height={height}
      viewBox={`0 0 ${Math.max(of.length, 1) * 6} ${height}`}
      preserveAspectRatio="none"
      role={behind ? "group" : "img"}
      aria-label={`${label}: ${number(total)} ${unit} in ${of.length} steps`}
    >
      {of.map((point, at) => {
        const whole = ((point.value ?? 0) / largest) * (height - 2);
        const failed = point.value ? (whole * (point.failed ?? 0)) / point.value : 0;
        const said = `${moment(point.at)}: ${number(point.value)} ${unit}${point.failed ? `, about ${number(point.failed, 2)} failed` : ""}`;
        const bar = (
          <g key={point.at}>
            <title>{said}</title>
            <rect x={at * 6} y={0} width={6} height={height} fill="transparent" />
            <rect x={at * 6 + 0.5} y={height - whole} width={5} height={whole} fill="var(--blue)" />
            {failed > 0 && <rect x={at * 6 + 0.5} y={height - failed} width={5} height={failed} fill="var(--orange)" />}
          </g>
        );
        const where = point.value ? behind?.(point.at) : undefined;
        if (!where) return bar;
        // Out of the order of tabs, where thirty bars of each agent would stand between two things.
        return (
          <Link key={point.at} to={where.to} search={where.search ?? {}} tabIndex={-1} aria-label={said}>
            {bar}
          </Link>
        );
      })}
      <line x1={0} x2={of.length * 6} y1={height - 0.5} y2={height - 0.5} className="axis" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}

/** A line through the known points; where nothing was measured there is a gap. */
export function Line({ of, label, low = 0, high = 1, height = 36 }: { of: Point[]; label: string; low?: number; high?: number; height?: number }) {
  const width = Math.max(of.length - 1, 1) * 6;
  const y = (value: number) => 2 + (1 - (value - low) / (high - low || 1)) * (height - 4);
  const pieces: string[] = [];
  let open = false;
  of.forEach((point, at) => {
    if (point.value == null) open = false;
    else {
      pieces.push(`${open ? "L" : "M"}${at * 6},${y(point.value)}`);
      open = true;
    }
  });
  const last = of.findLast((point) => point.value != null);
  return (
    <svg width="100%" height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={`${label}: last ${number(last?.value)}`}>
      <line x1={0} x2={width} y1={y(low)} y2={y(low)} className="axis" vectorEffect="non-scaling-stroke" />
      <path d={pieces.join("")} fill="none" stroke="var(--green)" strokeWidth={1.6} vectorEffect="non-scaling-stroke" strokeLinecap="round" />
    </svg>
  );
}
