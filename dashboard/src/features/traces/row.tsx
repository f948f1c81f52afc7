// A trace in the list: what was asked, what came of it, and what it took.
import { Link } from "@tanstack/react-router";
import { memo } from "react";
import type { Schemas } from "../../api/client";
import { counted, dollars, duration, line, number } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Time } from "../../ui/basics";

interface Shown {
  trace: Schemas["Trace"];
  place: number;
  /** Whether the keyboard is at this row. */
  current: boolean;
  chosen: boolean;
  /** Whether the list has a column for users. */
  withUser: boolean;
  choose: (place: number, to: boolean, isRange: boolean) => void;
}

export const TraceRow = memo(function TraceRow({ trace, place, current, chosen, withUser, choose }: Shown) {
  const name = line(trace.name, 60) || "(no name)";
  return (
    <tr aria-selected={current}>
      <td>
        <input
          type="checkbox"
          aria-label={`Select ${line(trace.input, 60) || name}`}
          checked={chosen}
          onChange={() => undefined}
          onClick={(event) => choose(place, !chosen, event.shiftKey)}
        />
      </td>
      <td style={{ whiteSpace: "nowrap" }}>
        <Time at={trace.start_ns / 1e9} />
      </td>
      <td className="trace-said">
        <Link to={pathOf("trace", trace.trace_id)} className="line">
          {line(trace.input, 300) || name}
        </Link>
        {trace.errors > 0 ? (
          <span className="bad line">✕ {line(trace.error, 300) || counted(trace.errors, "error")}</span>
        ) : (
          trace.output && <span className="muted line">→ {line(trace.output, 300)}</span>
        )}
      </td>
      <td className="trace-agent">
        <div className="line">{line(trace.agent, 60)}</div>
        <div className="muted small line">{name}</div>
        {trace.rootless && <span className="badge" title="The first span has not been received">no root</span>}
      </td>
      <td className="wrap">{line(trace.models.join(", "), 60)}</td>
      {withUser && <td className="wrap">{line(trace.user, 40)}</td>}
      <td className="num">{duration(trace.duration_s)}</td>
      <td className="num">{number(trace.spans)}</td>
      <td className="num">{dollars(trace.cost_usd, trace.known_usd)}</td>
      <td className="num">{trace.feedback ? `${number(trace.worst)} (${trace.feedback})` : ""}</td>
    </tr>
  );
});
