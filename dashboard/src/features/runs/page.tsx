// One run: where it is, its candidates as a plot and as a tree, any two of them side by side.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { Scores } from "../../charts/scores";
import { Picture } from "../../charts/picture";
import { download, toCsv } from "../../lib/export";
import { counted, dollars, line, number, score, short, signed } from "../../lib/format";
import { ends } from "../../lib/interval";
import { pathOf } from "../../lib/paths";
import { awaited } from "../../lib/waits";
import { Behind, Command, Empty, Facts, Figure, Page, State, Time, waiting } from "../../ui/basics";
import { Changes } from "./changes";
import { FrontOf } from "./front";
import { lineage } from "./tree";

type Proposal = Schemas["RunProposal"];
const STAGES = ["baseline", "learn", "prove", "ship"];
const OVER: Record<string, boolean> = { shipped: true, no_gain: true, not_proved: true, failed: true };

export function RunPage() {
  const { id } = useParams({ from: "/runs/$id" });
  const run = useQuery({
    queryKey: ["runs", id],
    queryFn: () => api.GET("/v1/runs/{id}", { params: { path: { id } } }),
    refetchInterval: (query) => (query.state.data && OVER[query.state.data.run.stage] ? 30_000 : 2_000),
  });
  return (
    <Page
      title={run.data ? `Run of ${line(run.data.run.agent, 80)}` : "Run"}
      above={
        <>
          <Link to="/runs">Runs</Link> · {short(id)}
          {run.data && <>, begun <Time at={run.data.run.created_at} /></>}
        </>
      }
      actions={<Command text={`ratchet candidates --run ${short(id)}`} />}
    >
      {waiting(run)}
      {run.data && <Shown detail={run.data} />}
    </Page>
  );
}

function Shown({ detail }: { detail: Schemas["RunDetail"] }) {
  const { run, proposals } = detail;
  const { candidate, other, view } = useSearch({ from: "/runs/$id" });
  const navigate = useNavigate({ from: "/runs/$id" });
  const select = (chosen: string) => void navigate({ search: (before) => ({ ...before, candidate: chosen }), replace: true });
  const mine = pathOf("run", run.id);
  const rollouts = (search: Record<string, string>) => ({ to: "/rollouts", search: { queue: run.id, ...search } });
  const onVal = { to: mine, search: { candidate: run.best_id, split: "val" }, hash: "tasks" };
  const reached = STAGES.indexOf(run.stage === "failed" ? run.failed_at : run.stage);
  return (
    <>
      <ol className="row" style={{ listStyle: "none", padding: 0 }} aria-label="Stages">
        {STAGES.map((stage, at) => (
          <li key={stage}>
            <span className={`badge ${run.stage === "failed" && at === reached ? "bad" : run.stage === stage ? "info" : OVER[run.stage] || at < reached ? "good" : ""}`}>
              {at < reached || run.stage === "shipped" ? "✓ " : run.stage === stage ? "● " : ""}
              {stage}
            </span>
          </li>
        ))}
        {OVER[run.stage] && (
          <li>
            <State of={run.stage} />
          </li>
        )}
      </ol>
      {run.message && <p className="verdict">{run.message}</p>}
      {!OVER[run.stage] && <p className={detail.waits.length ? "note" : "muted"}>{working(detail)}</p>}
      <div className="figures">
        <Figure label={`baseline on val${detail.val_tasks ? `, ${counted(detail.val_tasks, "task")}` : ""}`} behind={run.best_id && detail.val_tasks ? onVal : undefined}>{score(detail.baseline_val)}</Figure>
        <Figure label="best on val" behind={run.best_id && detail.val_tasks ? onVal : undefined}>{score(detail.best_val)}</Figure>
        {detail.experiment?.decision && (
          <Figure label="gain on unseen tasks" behind={{ to: pathOf("experiment", run.experiment_id), hash: "pairs" }}>
            {signed(detail.experiment.decision.candidate - detail.experiment.decision.baseline)}{" "}
            <span className="small muted">
              {ends(detail.experiment.decision.interval)}
            </span>
          </Figure>
        )}
        <Figure label="candidates" behind={{ to: mine, search: { candidate, other, view: "order" }, hash: "candidates" }}>{number(proposals.length)}</Figure>
        <Figure label="rollouts of the agent, the proof's included" behind={rollouts({})}>{number(detail.rollouts)}</Figure>
        <Figure label="coach calls" behind={detail.coach_calls ? { to: "/traces", search: { agent: "coach", conversation_id: run.id } } : undefined}>{number(detail.coach_calls)}</Figure>
        <Figure label="judge calls">{number(detail.judge_calls)}</Figure>
        <Figure label="spent on all of these">{dollars(detail.cost_usd, detail.known_usd)}</Figure>
      </div>
      <Facts
        of={[
          ["dataset", run.dataset_version && <code key="dataset">{short(run.dataset_version)}</code>],
          ["seed", number(run.seed)],
          ["experiment", run.experiment_id && <Link key="experiment" to={pathOf("experiment", run.experiment_id)}>both outputs of each task</Link>],
          ["release", run.release_id && <Link key="release" to={pathOf("release", run.release_id)}>what it changed, and where it is</Link>],
        ]}
      />
      {detail.notes.map((note, at) => (
        <p key={at} className="note">
          {note}
        </p>
      ))}
      <h2 id="candidates">Candidates</h2>
      {proposals.length === 0 ? (
        <Empty>{OVER[run.stage] ? "No candidate was judged." : "No candidate has been judged yet."}</Empty>
      ) : (
        <Candidates detail={detail} selected={candidate} select={select} view={view} />
      )}
      <FrontOf run={run.id} over={OVER[run.stage] ?? false} select={select} selected={candidate} />
      {detail.refusals.length > 0 && (
        <details>
          <summary>{counted(detail.refusals.reduce((sum, refusal) => sum + refusal.count, 0), "proposal")} refused before judging</summary>
          <ul>
            {detail.refusals.map((refusal) => (
              <li key={refusal.reason}>
                {number(refusal.count)} × {line(refusal.reason, 300)}
              </li>
            ))}
          </ul>
        </details>
      )}
      {candidate && <Two detail={detail} candidate={candidate} other={other} />}
    </>
  );
}

/** Whether a process is at work on a run, and what it waits for. */
function working({ at_work, command, waits }: Schemas["RunDetail"]): string {
  if (!at_work) return `No process is at work on it; ${command} continues it.`;
  return waits.length ? `At work, ${awaited(waits, Date.now() / 1000)}.` : "At work.";
}

function Candidates({ detail, selected, select, view }: { detail: Schemas["RunDetail"]; selected?: string; select: (id: string) => void; view?: string }) {
  const { proposals, run } = detail;
  const [over, setOver] = useState<"rollouts" | "dollars">("rollouts");
  const navigate = useNavigate({ from: "/runs/$id" });
  const rows = view === "order" ? proposals.map((candidate) => ({ candidate, depth: 0 })) : lineage(proposals);
  return (
    <>
      <div className="row">
        <label>
          Score over
          <select value={over} onChange={(event) => setOver(event.target.value as "rollouts")}>
            <option value="rollouts">rollouts</option>
            <option value="dollars">dollars</option>
          </select>
        </label>
        <label>
          List
          <select value={view ?? "tree"} onChange={(event) => void navigate({ search: (before) => ({ ...before, view: event.target.value === "tree" ? undefined : event.target.value }), replace: true })}>
            <option value="tree">as a tree</option>
            <option value="order">in order</option>
          </select>
        </label>
        <button
          type="button"
          onClick={() =>
            download(
              `run-${short(run.id)}.csv`,
              "text/csv",
              toCsv(
                ["number", "candidate", "parents", "algorithm", "score", "rollouts", "coach_calls", "known_usd", "reason"],
                proposals.map((each) => [each.number, each.candidate_id, each.parents.join(" "), each.algorithm, each.score, each.rollouts, each.coach_calls, each.known_usd, each.reason]),
              ),
            )
          }
        >
          CSV
        </button>
      </div>
      <Picture name={`run-${short(run.id)}-scores`}>
        <Scores
          unit={over}
          selected={selected}
          select={select}
          of={proposals.map((each) => ({
            id: each.candidate_id,
            x: over === "rollouts" ? each.rollouts : each.known_usd,
            y: each.score ?? null,
            label: `${each.number}, ${each.algorithm}`,
            chosen: each.candidate_id === run.best_id,
          }))}
        />
      </Picture>
      <div className="scroll" style={{ maxHeight: 480, overflow: "auto" }} tabIndex={0} aria-label="List of candidates">
        <table aria-label="Candidates">
          <thead>
            <tr>
              <th>candidate</th>
              <th>by</th>
              <th className="num">score</th>
              <th className="num">rollouts so far</th>
              <th>why it was proposed</th>
              <th>what became of it</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ candidate, depth }) => (
              <CandidateRow key={candidate.candidate_id} run={run.id} candidate={candidate} depth={depth} selected={candidate.candidate_id === selected} best={candidate.candidate_id === run.best_id} select={select} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function CandidateRow({ run, candidate, depth, selected, best, select }: { run: string; candidate: Proposal; depth: number; selected: boolean; best: boolean; select: (id: string) => void }) {
  return (
    <tr aria-selected={selected}>
      <td style={{ paddingLeft: Math.min(depth, 20) * 14, whiteSpace: "nowrap" }}>
        <button type="button" className="plain mono" onClick={() => select(candidate.candidate_id)}>
          {short(candidate.candidate_id)}
        </button>{" "}
        {best && <span className="badge good">✓ chosen</span>}
      </td>
      <td>{candidate.algorithm}</td>
      <td className="num">
        <Behind where={{ to: "/rollouts", search: { queue: run, candidate: candidate.candidate_id, purpose: "learn/" } }}>{score(candidate.score)}</Behind>
      </td>
      <td className="num">{number(candidate.rollouts)}</td>
      <td className="wrap long">{line(candidate.reason, 200)}</td>
      <td className="wrap muted">{line(candidate.verdict, 160)}</td>
    </tr>
  );
}

function Two({ detail, candidate, other }: { detail: Schemas["RunDetail"]; candidate: string; other?: string }) {
  const navigate = useNavigate({ from: "/runs/$id" });
  const against = other ?? detail.run.baseline_id;
  const tasks = useQuery({
    queryKey: ["runs", detail.run.id, "tasks", candidate, against],
    queryFn: () => api.GET("/v1/runs/{id}/tasks", { params: { path: { id: detail.run.id }, query: { candidate, other: against } } }),
  });
  const outcomes = tasks.data?.tasks ?? [];
  const { split, outcome } = useSearch({ from: "/runs/$id" });
  const both = outcomes.filter((task) => task.candidate != null && task.other != null && (!split || task.split === split));
  const won = both.filter((task) => task.candidate! > task.other!).length;
  const lost = both.filter((task) => task.candidate! < task.other!).length;
  const result = (task: Schemas["TaskOutcome"]) => (task.candidate! > task.other! ? "won" : task.candidate! < task.other! ? "lost" : "level");
  const shown = both.filter((task) => !outcome || result(task) === outcome);
  const set = (changed: { split?: string; outcome?: string }) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  const only = (which: string, count: number) => (
    <Behind where={{ to: pathOf("run", detail.run.id), search: { candidate, other, split, outcome: which }, hash: "tasks" }}>
      {count} {which}
    </Behind>
  );
  return (
    <>
      <div className="row">
        <h2>
          {short(candidate)} against{" "}
          <select
            aria-label="Compare with"
            value={against}
            onChange={(event) => void navigate({ search: (before) => ({ ...before, other: event.target.value === detail.run.baseline_id ? undefined : event.target.value }), replace: true })}
          >
            <option value={detail.run.baseline_id}>the baseline</option>
            {detail.proposals
              .filter((each) => each.candidate_id !== candidate && each.candidate_id !== detail.run.baseline_id)
              .map((each) => (
                <option key={each.candidate_id} value={each.candidate_id}>
                  {short(each.candidate_id)} ({score(each.score)})
                </option>
              ))}
          </select>
        </h2>
      </div>
      <Changes candidate={candidate} since={against} />
      <h3 id="tasks">Task by task</h3>
      {waiting(tasks)}
      {tasks.data && (
        <p className="muted">
          Of {counted(both.length, "task")} that both ran: {only("won", won)}, {only("lost", lost)}, {only("level", both.length - won - lost)}.
        </p>
      )}
      {tasks.data && (
        <div className="row">
          <label>
            Split
            <select value={split ?? ""} onChange={(event) => set({ split: event.target.value || undefined })}>
              <option value="">all</option>
              {[...new Set(outcomes.map((task) => task.split))].filter(Boolean).map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
          <label>
            Outcome
            <select value={outcome ?? ""} onChange={(event) => set({ outcome: event.target.value || undefined })}>
              <option value="">all</option>
              {["won", "lost", "level"].map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
          <span className="muted">{counted(shown.length, "task")}</span>
        </div>
      )}
      {shown.length > 0 && (
        <div className="scroll" style={{ maxHeight: 420, overflow: "auto" }} tabIndex={0} aria-label="Scores by task">
          <table aria-label="Tasks">
            <thead>
              <tr>
                <th>task</th>
                <th className="num">other</th>
                <th className="num">this one</th>
                <th className="num">difference</th>
              </tr>
            </thead>
            <tbody>
              {[...shown]
                .sort((one, two) => one.candidate! - one.other! - (two.candidate! - two.other!))
                .map((task) => (
                  <tr key={task.task_id}>
                    <td className="wrap">{line(task.task_id, 80)}</td>
                    <td className="num"><Ran ids={task.other_rollouts} run={detail.run.id} candidate={against} task={task.task_id} shown={score(task.other)} /></td>
                    <td className="num"><Ran ids={task.candidate_rollouts} run={detail.run.id} candidate={candidate} task={task.task_id} shown={score(task.candidate)} /></td>
                    <td className={`num ${task.candidate! > task.other! ? "good" : task.candidate! < task.other! ? "bad" : ""}`}>{signed(task.candidate! - task.other!)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** A task's score as the link to its rollout, or to all of them. */
function Ran({ ids, run, candidate, task, shown }: { ids: string[]; run: string; candidate: string; task: string; shown: string }) {
  if (ids.length === 0) return <>{shown}</>;
  return <Behind where={ids.length === 1 ? { to: pathOf("rollout", ids[0]!) } : { to: "/rollouts", search: { queue: run, candidate, task } }}>{shown}</Behind>;
}
