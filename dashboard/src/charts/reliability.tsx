// How often outputs of about the same score are right, by people: on the diagonal, the score is a
// probability.
import { scaleLinear } from "d3-scale";
import { number } from "../lib/format";

export interface Bin {
  score: number;
  right: number | null;
  low: number | null;
  high: number | null;
  n: number;
}

const SIZE = 260;

export function Reliability({ of }: { of: Bin[] }) {
  const x = scaleLinear([0, 1], [36, SIZE - 8]);
  const y = scaleLinear([0, 1], [SIZE - 30, 8]);
  return (
    <svg viewBox={`0 0 ${SIZE} ${SIZE}`} width={SIZE} role="img" aria-label="Share of right outputs over score">
      {[0, 0.25, 0.5, 0.75, 1].map((tick) => (
        <g key={tick}>
          <line x1={x(0)} x2={x(1)} y1={y(tick)} y2={y(tick)} className="axis" />
          <text x={30} y={y(tick) + 4} textAnchor="end">
            {tick}
          </text>
          <text x={x(tick)} y={SIZE - 16} textAnchor="middle">
            {tick}
          </text>
        </g>
      ))}
      <text x={SIZE / 2} y={SIZE - 3} textAnchor="middle">
        score
      </text>
      <line x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} stroke="var(--line-strong)" strokeDasharray="4 3" />
      {of.map((bin) => (
        <g key={bin.score}>
          {bin.low != null && bin.high != null && <line x1={x(bin.score)} x2={x(bin.score)} y1={y(bin.low)} y2={y(bin.high)} stroke="var(--blue)" strokeWidth={2} />}
          {bin.right != null && (
            <circle cx={x(bin.score)} cy={y(bin.right)} r={4} fill="var(--blue)">
              <title>{`score ${number(bin.score)}: ${number(100 * bin.right)} % of ${bin.n} right`}</title>
            </circle>
          )}
        </g>
      ))}
    </svg>
  );
}
