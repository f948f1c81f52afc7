// How often outputs of about the same score are right, by people: on the diagonal, the score is a
// probability.
import { scaleLinear } from "d3-scale";
import { Link } from "@tanstack/react-router";
import { number } from "../lib/format";
import type { Where } from "../ui/basics";

export interface Bin {
  score: number;
  right: number | null;
  low: number | null;
  high: number | null;
  n: number;
}

const SIZE = 260;

export function Reliability({ of, behind }: { of: Bin[]; behind?: (at: number) => Where | undefined }) {
  const x = scaleLinear([0, 1], [36, SIZE - 8]);
  const y = scaleLinear([0, 1], [SIZE - 30, 22]);
  return (
    <svg viewBox={`0 0 ${SIZE} ${SIZE}`} width={SIZE} role="group" aria-label="Share of right outputs over score">
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
      <text x={4} y={11}>
        share right
      </text>
      <text x={SIZE / 2} y={SIZE - 3} textAnchor="middle">
        score
      </text>
      <line x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} stroke="var(--line-strong)" strokeDasharray="4 3" />
      {of.map((bin, at) => (
        <g key={at}>
          {bin.low != null && bin.high != null && <line x1={x(bin.score)} x2={x(bin.score)} y1={y(bin.low)} y2={y(bin.high)} stroke="var(--blue)" strokeWidth={2} />}
          {bin.right != null && (
            <Dot where={behind?.(at)} said={`score ${number(bin.score)}: ${number(100 * bin.right)} % of ${bin.n} right`} x={x(bin.score)} y={y(bin.right)} />
          )}
        </g>
      ))}
    </svg>
  );
}

function Dot({ where, said, x, y }: { where: Where | undefined; said: string; x: number; y: number }) {
  const dot = (
    <circle cx={x} cy={y} r={4} fill="var(--blue)">
      <title>{said}</title>
    </circle>
  );
  if (!where) return dot;
  return (
    <Link to={where.to} search={where.search ?? {}} hash={where.hash} aria-label={said}>
      {dot}
    </Link>
  );
}
