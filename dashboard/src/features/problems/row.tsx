// A problem in a list: what goes wrong, for which share of traffic, and how that has gone.
import { Link } from "@tanstack/react-router";
import type { Schemas } from "../../api/client";
import { Spark } from "../../charts/spark";
import { counted, dollars, line } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { State, Time } from "../../ui/basics";
import { kindOf, shareOf, trendOf } from "./words";

export function ProblemRow({ of, withAgent }: { of: Schemas["ProblemReport"]; withAgent: boolean }) {
  const { problem } = of;
  const trend = trendOf(of.days);
  return (
    <li>
      <div className="stack" style={{ gap: 3 }}>
        <div className="title">
          <Link to={pathOf("problem", problem.id)}>{line(problem.title, 140)}</Link>
          <State of={problem.state} />
        </div>
        <div className="muted small">
          {withAgent && <>{line(problem.agent, 40)} · </>}
          {kindOf(problem.kind)}
          {problem.place && <> in {line(problem.place, 60)}</>} · {counted(of.traces, "trace")}
          {of.cost_usd !== null && <>, {dollars(of.cost_usd)}</>} · last <Time at={problem.last_seen} />, first <Time at={problem.first_seen} />
        </div>
      </div>
      <div className="trend">
        <Spark days={of.days} label="Traces by day" />
        {trend && <div className={`small ${trend === "rising" ? "bad" : trend === "falling" ? "good" : "muted"}`}>{trend === "rising" ? "↗ rising" : trend === "falling" ? "↘ falling" : "→ steady"}</div>}
      </div>
      <div className="share">
        <b>{shareOf(of.share)}</b>
        <span className="muted small">of traffic</span>
      </div>
    </li>
  );
}
