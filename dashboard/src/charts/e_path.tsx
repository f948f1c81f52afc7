// The path of an experiment's e-values: logarithmic, with the lines that decide.
import { scaleLinear, scaleLog } from "d3-scale";
import { number } from "../lib/format";

export interface Curve {
  label: string;
  values: number[];
  colour: string;
  dash?: string;
}

const WIDTH = 760;
const HEIGHT = 260;
const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 34;

export function EPath({ curves, threshold, unit }: { curves: Curve[]; threshold: number; unit: string }) {
  const count = Math.max(1, ...curves.map((curve) => curve.values.length));
  const all = curves.flatMap((curve) => curve.values).filter((value) => value > 0);
  const low = Math.max(1e-6, Math.min(0.1, ...all));
  const high = Math.max(threshold * 2, ...all);
  const x = scaleLinear([0, count], [LEFT, WIDTH - RIGHT]);
  const y = scaleLog([low, high], [HEIGHT - BOTTOM, TOP]).clamp(true);
  const decades: number[] = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.floor(Math.log10(high)); power++) decades.push(10 ** power);
  const path = (values: number[]) => `M${x(0)},${y(1)}${values.map((value, at) => `L${x(at + 1).toFixed(1)},${y(Math.max(value, low)).toFixed(1)}`).join("")}`;
  const main = curves[0];
  const reached = main ? main.values.findIndex((value) => value >= threshold) : -1;
  return (
    <figure style={{ margin: 0 }}>
      <svg className="tall" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" style={{ maxWidth: WIDTH }} role="img" aria-label={`E-values over ${count} ${unit}; the threshold is ${number(threshold)}`}>
        {decades.map((decade) => (
          <g key={decade}>
            <line x1={LEFT} x2={WIDTH - RIGHT} y1={y(decade)} y2={y(decade)} className="axis" />
            <text x={LEFT - 6} y={y(decade) + 4} textAnchor="end">
              {decade >= 1 ? decade.toLocaleString("en") : decade}
            </text>
          </g>
        ))}
        <line x1={LEFT} x2={WIDTH - RIGHT} y1={y(1)} y2={y(1)} stroke="var(--line-strong)" />
        <line x1={LEFT} x2={WIDTH - RIGHT} y1={y(threshold)} y2={y(threshold)} stroke="var(--accent)" strokeDasharray="6 3" strokeWidth={1.4} />
        <text x={LEFT + 6} y={y(threshold) + 13} className="strong">
          1/α = {number(threshold)}
        </text>
        {[...curves].reverse().map((curve) => (
          <path key={curve.label} d={path(curve.values)} fill="none" stroke={curve.colour} strokeWidth={curve === main ? 2.2 : 1.2} strokeDasharray={curve.dash} />
        ))}
        {reached >= 0 && main && (
          <circle cx={x(reached + 1)} cy={y(main.values[reached]!)} r={4} fill={main.colour} stroke="var(--bg)">
            <title>{`reached after ${reached + 1} ${unit}`}</title>
          </circle>
        )}
        {x.ticks(8).map((tick) => (
          <text key={tick} x={x(tick)} y={HEIGHT - 17} textAnchor="middle">
            {tick}
          </text>
        ))}
        <text x={(LEFT + WIDTH) / 2} y={HEIGHT - 1} textAnchor="middle">
          {unit}
        </text>
      </svg>
      <figcaption className="row small">
        {curves.map((curve) => (
          <span key={curve.label} className="row" style={{ gap: 4 }}>
            <svg width="22" height="8" aria-hidden>
              <line x1="0" x2="22" y1="4" y2="4" stroke={curve.colour} strokeWidth={2} strokeDasharray={curve.dash} />
            </svg>
            {curve.label}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}
