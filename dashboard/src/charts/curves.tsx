// Curves of a training: uPlot, wrapped so that its life follows React's.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export function Curve({ title, x, y }: { title: string; x: number[]; y: (number | null)[] }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    // Away from the curve, the legend has its last value.
    const last = y.findLastIndex((value) => value != null);
    const rest = (plot: uPlot) => void (plot.cursor.idx == null && last >= 0 && plot.setLegend({ idx: last }, false));
    const plot = new uPlot(
      {
        width: box.clientWidth,
        height: 180,
        scales: { x: { time: false } },
        series: [{ label: "step" }, { label: "value", stroke: colour("--blue"), width: 1.5, spanGaps: true }],
        hooks: { ready: [rest], setCursor: [rest] },
        axes: [axis, { ...axis, size: 56 }],
      },
      [x, y],
      box,
    );
    const follow = new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 180 }));
    follow.observe(box);
    return () => {
      follow.disconnect();
      plot.destroy();
    };
  }, [title, x, y]);
  return (
    <figure style={{ margin: 0 }}>
      <figcaption className="muted">{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title} over ${x.length} steps`} />
    </figure>
  );
}
