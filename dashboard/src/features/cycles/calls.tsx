// The live calls that a cycle's stages looked at: what their figures count.
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import type { Schemas } from "../../api/client";
import { counted, dollars, duration, line, score, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { State } from "../../ui/basics";
import { Rows } from "../../ui/rows";
import { callsOf, WHICH } from "./observed";

const SHOWN = 50;

export function Calls({ of, metrics }: { of: Schemas["StageCall"][]; metrics: Record<string, string> }) {
  const { stage, which, group } = useSearch({ from: "/cycles/$id" });
  const navigate = useNavigate({ from: "/cycles/$id" });
  const [all, setAll] = useState(false);
  const set = (changed: Record<string, string | undefined>) => void navigate({ search: (before: Record<string, string | undefined>) => ({ ...before, ...changed }), replace: true });
  const chosen = callsOf(of, { stage, which, group, metric: metrics[stage ?? ""] });
  const groups = [...new Set(of.map((call) => call.group))].filter(Boolean).sort();
  const choice = (label: string, name: string, value: string | undefined, options: readonly string[]) => (
    <label>
      {label}
      <select value={value ?? ""} onChange={(event) => set({ [name]: event.target.value || undefined })}>
        <option value="">all</option>
        {options.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <div className="row">
        <h2 id="calls">Calls</h2>
        {choice("Stage", "stage", stage, [...new Set(of.map((call) => call.stage))])}
        {choice("Show", "which", which, WHICH)}
        {groups.length > 0 && choice("Group", "group", group, groups)}
        <span className="muted">{counted(chosen.length, "call")}</span>
      </div>
      {chosen.length === 0 && <p className="muted">No call fits these filters.</p>}
      {chosen.length > 0 && (
        <Rows>
          <table aria-label="Calls">
            <thead>
              <tr>
                <th>call</th>
                <th>stage</th>
                <th>answered by</th>
                <th className="num">baseline</th>
                <th className="num">candidate</th>
                <th className="num">took</th>
                <th className="num">cost</th>
                <th>group</th>
                <th>note</th>
              </tr>
            </thead>
            <tbody>
              {(all ? chosen : chosen.slice(0, SHOWN)).map((call, at) => (
                <tr key={at}>
                  <td>
                    <Link to={pathOf("trace", call.trace_id)}>
                      <code>{short(call.trace_id)}</code>
                    </Link>
                  </td>
                  <td>{call.stage}</td>
                  <td>{call.part === "pair" ? "both" : call.part === "before" ? "what was released before" : call.part}</td>
                  <td className="num">{score(call.baseline)}</td>
                  <td className="num">{call.rollout_id ? <Link to={pathOf("rollout", call.rollout_id)}>{call.candidate == null ? "none" : score(call.candidate)}</Link> : score(call.candidate)}</td>
                  <td className="num">{call.latency_s != null && duration(call.latency_s)}</td>
                  <td className="num">{call.cost_usd != null && dollars(call.cost_usd)}</td>
                  <td className="wrap">{line(call.group, 60)}</td>
                  <td className="wrap">
                    {call.error && <State of="failed" />} {line(call.why, 160)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Rows>
      )}
      {!all && chosen.length > SHOWN && (
        <button type="button" onClick={() => setAll(true)}>
          All {counted(chosen.length, "call")}
        </button>
      )}
    </>
  );
}
