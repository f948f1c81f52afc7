// Score of candidates over what was spent, with the best so far as a step line.
import { scaleLinear } from "d3-scale";
import { score } from "../lib/format";

export interface Dot {
  id: string;
  x: number;
  y: number | null;
  label: string;
  chosen: boolean;
}

const WIDTH = 760;
const HEIGHT = 240;

export function Scores({ of, unit, select, selected }: { of: Dot[]; unit: string; select: (id: string) => void; selected?: string }) {
  const known = of.filter((dot): dot is Dot & { y: number } => dot.y != null);
  const x = scaleLinear([0, Math.max(1e-9, ...of.map((dot) => dot.x))], [44, WIDTH - 24]).nice();
  const y = scaleLinear([Math.min(0, ...known.map((dot) => dot.y)), Math.max(1, ...known.map((dot) => dot.y))], [HEIGHT - 34, 10]);
  let best = -Infinity;
  let path = "";
  for (const dot of known) {
    if (dot.y <= best) continue;
    path += path ? `H${x(dot.x)}V${y(dot.y)}` : `M${x(dot.x)},${y(dot.y)}`;
    best = dot.y;
  }
  if (path) path += `H${WIDTH - 12}`;
  return (
    <svg className="tall" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width="100%" style={{ maxWidth: WIDTH }} role="group" aria-label={`Score of ${known.length} candidates over ${unit}`}>
      {y.ticks(5).map((tick) => (
        <g key={tick}>
          <line x1={44} x2={WIDTH - 12} y1={y(tick)} y2={y(tick)} className="axis" />
          <text x={38} y={y(tick) + 4} textAnchor="end">
            {tick}
          </text>
        </g>
      ))}
      {x.ticks(7).map((tick) => (
        <text key={tick} x={x(tick)} y={HEIGHT - 17} textAnchor="middle">
          {tick}
        </text>
      ))}
      <text x={WIDTH / 2} y={HEIGHT - 1} textAnchor="middle">
        {unit}
      </text>
      <path d={path} fill="none" stroke="var(--line-strong)" strokeDasharray="4 3" />
      {known.map((dot) => (
        <circle
          key={dot.id}
          cx={x(dot.x)}
          cy={y(dot.y)}
          r={dot.id === selected ? 7 : dot.chosen ? 6 : 4}
          fill={dot.chosen ? "var(--green)" : "var(--blue)"}
          stroke={dot.id === selected ? "var(--text)" : "var(--bg)"}
          strokeWidth={dot.id === selected ? 2 : 1}
          style={{ cursor: "pointer" }}
          onClick={() => select(dot.id)}
        >
          <title>{`${dot.label}: ${score(dot.y)}`}</title>
        </circle>
      ))}
    </svg>
  );
}
