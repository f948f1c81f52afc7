// A small series without axes: how often something happened on each day.
import { counted } from "../lib/format";

const WIDTH = 140;
const HEIGHT = 34;

export function Spark({ days, label }: { days: readonly number[]; label: string }) {
  const largest = Math.max(1, ...days);
  const step = WIDTH / Math.max(1, days.length);
  const total = days.reduce((sum, each) => sum + each, 0);
  return (
    <svg className="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${total} in ${counted(days.length, "day")}, ${days.at(-1) ?? 0} on the last`}>
      {days.map((count, at) => {
        const height = count ? Math.max(2, (count / largest) * (HEIGHT - 2)) : 1;
        return <rect key={at} x={at * step + 1} y={HEIGHT - height} width={Math.max(1, step - 2)} height={height} rx={1} fill={count ? "var(--orange)" : "var(--line-control)"} />;
      })}
    </svg>
  );
}
