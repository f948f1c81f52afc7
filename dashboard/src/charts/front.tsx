// Candidates by quality over cost or latency: those on the front have letters, which the table has, too.
import { scaleLinear } from "d3-scale";
import { score } from "../lib/format";

export interface FrontDot {
  id: string;
  x: number;
  y: number;
  /** Its name, and what it achieves for how much. */
  said: string;
  /** What stands beside it; empty behind the front. */
  label: string;
  kind: "source" | "shipped" | "front" | "behind";
}

const WIDTH = 760;
const HEIGHT = 260;
const COLOURS = { source: "var(--orange)", shipped: "var(--green)", front: "var(--green)", behind: "var(--blue)" };

export function Front({ of, metric, unit, shown, select, selected }: { of: FrontDot[]; metric: string; unit: string; shown: (x: number) => string; select: (id: string) => void; selected?: string }) {
  const x = scaleLinear([0, Math.max(1e-9, ...of.map((dot) => dot.x))], [52, WIDTH - 40]).nice();
  const qualities = of.map((dot) => dot.y);
  const y = scaleLinear([Math.min(...qualities), Math.max(...qualities)], [HEIGHT - 44, 18]);
  if (Math.min(...qualities) === Math.max(...qualities)) y.domain([qualities[0]! - 0.1, qualities[0]! + 0.1]);
  return (
    <svg className="tall" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" style={{ maxWidth: WIDTH }} role="group" aria-label={`${metric} of ${of.length} candidates over ${unit}`}>
      {y.ticks(5).map((tick) => (
        <g key={tick}>
          <line x1={52} x2={WIDTH - 12} y1={y(tick)} y2={y(tick)} className="axis" />
          <text x={46} y={y(tick) + 4} textAnchor="end">
            {score(tick)}
          </text>
        </g>
      ))}
      {x.ticks(5).map((tick) => (
        <text key={tick} x={x(tick)} y={HEIGHT - 18} textAnchor="middle">
          {shown(tick)}
        </text>
      ))}
      <text x={WIDTH / 2} y={HEIGHT - 2} textAnchor="middle">
        {unit}
      </text>
      {of.map((dot) => (
        <g key={dot.id} style={{ cursor: "pointer" }} onClick={() => select(dot.id)}>
          <circle
            cx={x(dot.x)}
            cy={y(dot.y)}
            r={dot.kind === "behind" ? 4 : 6}
            fill={COLOURS[dot.kind]}
            stroke={dot.id === selected ? "var(--text)" : "var(--bg)"}
            strokeWidth={dot.id === selected ? 2 : 1}
          >
            <title>{dot.said}</title>
          </circle>
          <text x={x(dot.x) + (dot.x > x.domain()[1]! / 2 ? -9 : 9)} y={y(dot.y) - 5} textAnchor={dot.x > x.domain()[1]! / 2 ? "end" : "start"} className="strong">
            {dot.label}
          </text>
        </g>
      ))}
    </svg>
  );
}
