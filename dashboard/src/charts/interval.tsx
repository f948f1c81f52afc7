// An estimate with its interval on a common axis, the zero line, and the zone of gains too small
// to matter.
import { scaleLinear } from "d3-scale";
import { signed } from "../lib/format";
import { ends } from "../lib/interval";

const WIDTH = 520;
const HEIGHT = 56;

export function Interval({ point, interval, small = 0, label }: { point: number; interval: [number, number]; small?: number; label: string }) {
  const reach = Math.max(0.02, Math.abs(interval[0]), Math.abs(interval[1]), Math.abs(point)) * 1.15;
  const x = scaleLinear([-reach, reach], [8, WIDTH - 8]);
  return (
    <svg className="scaled" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" style={{ maxWidth: WIDTH }} role="img" aria-label={`${label}: ${signed(point)}, interval ${ends(interval)}`}>
      {small > 0 && (
        <rect x={x(-small)} width={x(small) - x(-small)} y={4} height={32} fill="var(--raised)">
          <title>{`gains below ${small} do not matter`}</title>
        </rect>
      )}
      <line x1={x(0)} x2={x(0)} y1={2} y2={38} stroke="var(--line-strong)" />
      <line x1={x(interval[0])} x2={x(interval[1])} y1={20} y2={20} stroke="var(--blue)" strokeWidth={3} />
      {interval.map((end) => (
        <line key={end} x1={x(end)} x2={x(end)} y1={14} y2={26} stroke="var(--blue)" strokeWidth={2} />
      ))}
      <circle cx={x(point)} cy={20} r={5} fill="var(--blue)" stroke="var(--bg)" />
      {x.ticks(6).map((tick) => (
        <text key={tick} x={x(tick)} y={HEIGHT - 4} textAnchor="middle">
          {tick === 0 ? "0" : signed(tick).replace(/\.?0+$/, "")}
        </text>
      ))}
    </svg>
  );
}
