// One problem: what fails, what has been done about it, and what to do next.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ArrowUpRight } from "lucide-react";
import { type ReactNode, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { Spark } from "../../charts/spark";
import { counted, dollars, line, moment, number, short, visible } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Facts, Figure, Page, State, Time, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { Outside } from "../../ui/outside";
import { useSession } from "../../ui/session";
import { isOpen, kindOf, saidOf, SETTABLE, shareOf, trendOf } from "./words";

const FIRST = 5;

export function ProblemPage() {
  const { id } = useParams({ from: "/problems/$id" });
  const found = useQuery({ queryKey: ["problems", id], queryFn: () => api.GET("/v1/problems/{id}", { params: { path: { id } } }) });
  const report = found.data?.report;
  return (
    <Page
      title={report ? line(report.problem.title, 160) : "Problem"}
      above={
        <>
          <Link to="/problems">Problems</Link>
          {report && ` · ${line(report.problem.agent, 60)}`}
        </>
      }
      actions={report && <Acts problem={report.problem} />}
    >
      {waiting(found)}
      {found.data && <Shown detail={found.data} />}
    </Page>
  );
}

function Shown({ detail }: { detail: Schemas["ProblemDetail"] }) {
  const { report, occurrences, unread, transitions, is_at_work, frozen_tasks } = detail;
  const { problem } = report;
  const [all, setAll] = useState(false);
  const examples = all ? occurrences : occurrences.slice(0, FIRST);
  const trend = trendOf(report.days);
  return (
    <div className="columns">
      <div>
        <div className="row" style={{ marginBottom: 14 }}>
          <State of={problem.state} />
          <span className="badge">{kindOf(problem.kind)}</span>
          <span className="muted">{problem.reason || saidOf(problem.kind)}</span>
        </div>
        <section className="box">
          <div className="figures">
            <Figure label={`of traffic, ${counted(report.traces, "trace")}`}>{shareOf(report.share)}</Figure>
            <Figure label="mean loss, 0 to 1">{number(report.loss, 2)}</Figure>
            <Figure label="spent on them">{dollars(report.cost_usd)}</Figure>
            <div className="figure" style={{ flex: "1 1 200px" }}>
              <Spark days={report.days} label="Traces by day" />
              <span className="muted small">
                by day, {counted(report.days.length, "day")}
                {trend && `; ${trend}`}
              </span>
            </div>
          </div>
        </section>
        <Next problem={problem} isAtWork={is_at_work} />
        <h2 id="examples">What fails</h2>
        {unread > 0 && (
          <div className="note">
            <p>The coach can read {number(unread)} of its traces and say what went wrong in each:</p>
            <Command text="ratchet problems read" />
          </div>
        )}
        {examples.length === 0 && <p className="muted">No trace in the window shows it any more.</p>}
        {examples.map((each) => (
          <Example key={each.id} of={each} />
        ))}
        {examples.length < occurrences.length && (
          <button type="button" onClick={() => setAll(true)}>
            {occurrences.length < report.traces ? `The newest ${number(occurrences.length)} traces` : `All ${counted(occurrences.length, "trace")}`}
          </button>
        )}
        {all && occurrences.length < report.traces && (
          <div className="note">
            <p>These are the newest {number(occurrences.length)} of {number(report.traces)} traces. All of them:</p>
            <Command text={`ratchet problems show ${short(problem.id)} --limit ${report.traces}`} />
          </div>
        )}
      </div>
      <aside className="stack" style={{ gap: 14 }}>
        <section className="box">
          <h2>About it</h2>
          <Facts
            of={[
              ["agent", <Link key="agent" to="/traces" search={{ agent: problem.agent }}>{line(problem.agent, 60)}</Link>],
              ["where", problem.place && <span key="place">{line(problem.place, 80)}</span>],
              ["first seen", <Time key="first" at={problem.first_seen} />],
              ["last seen", <Time key="last" at={problem.last_seen} />],
              ["measured by", problem.evaluator || "no evaluator yet"],
              ["frozen set", problem.frozen_set ? <FrozenSet key="set" id={problem.frozen_set} tasks={frozen_tasks} /> : "none: a fix makes one"],
              ["fixed by", problem.release_id && <Link key="release" to={pathOf("release", problem.release_id)}>release {short(problem.release_id)}</Link>],
              ["runs", problem.run_ids.length > 0 && problem.run_ids.map((run) => <Link key={run} to={pathOf("run", run)}>{short(run)} </Link>)],
              ["pull requests", problem.requests.length > 0 && problem.requests.map((request) => <div key={request}><Outside to={request} /></div>)],
            ]}
          />
        </section>
        <section className="box">
          <h2>What has happened</h2>
          <ol className="timeline" aria-label="States">
            {[...transitions].reverse().map((move) => (
              <li key={move.at}>
                <State of={move.target} /> <span className="muted small" title={moment(move.at)}><Time at={move.at} /> by {move.by ? line(move.by, 40) : "Ratchet"}</span>
                {move.reason && <p>{line(move.reason, 400)}</p>}
              </li>
            ))}
            <li>
              <b>first seen</b> <span className="muted small"><Time at={problem.first_seen} /></span>
            </li>
          </ol>
        </section>
      </aside>
    </div>
  );
}

function FrozenSet({ id, tasks }: { id: string; tasks: number | null }) {
  return (
    <>
      <code>{short(id)}</code>, {tasks === null ? "not on this store any more" : counted(tasks, "task")}
      <Command text={`ratchet frozen show ${short(id)}`} />
    </>
  );
}

/** What a person would do now, as a command. */
function Next({ problem, isAtWork }: { problem: Schemas["Problem"]; isAtWork: boolean }) {
  if (problem.state === "proposed")
    return (
      <div className="note">
        <p>
          A fix is proposed{problem.release_id && <>: <Link to={pathOf("release", problem.release_id)}>the change and its proof</Link></>}. Once it is merged, this problem is fixed; if it is closed, the problem is open again. To try another change:
        </p>
        <Command text={`ratchet improve --problem ${short(problem.id)}`} />
      </div>
    );
  if (problem.state === "learning" && isAtWork)
    return (
      <div className="note">
        <p>A run works on it. How far it is:</p>
        <Command text="ratchet status" />
      </div>
    );
  if (problem.state === "fixed") return <p className="note good">It is fixed{problem.fixed_at > 0 && <> since <Time at={problem.fixed_at} /></>}. If it comes back, it is reopened as “returned”.</p>;
  if (problem.state === "ignored") return <p className="note">It is ignored and nothing works on it. Reopen it to change that.</p>;
  return (
    <div className="note">
      <p>
        {problem.state === "learning" ? "Its run was interrupted. This continues it:" : problem.state === "returned" ? "It was fixed and is back. Learn from these traces and prove a fix:" : "Learn from these traces, and prove a fix on tasks that learning has not seen:"}
      </p>
      <Command text={`ratchet improve --problem ${short(problem.id)}`} />
    </div>
  );
}

function Example({ of }: { of: Schemas["Occurrence"] }) {
  return (
    <article className="example">
      <header>
        <Time at={of.at} />
        {of.place && <span className="muted">{line(of.place, 60)}</span>}
        {of.cost_usd != null && <span className="muted">{dollars(of.cost_usd)}</span>}
        <Link to={pathOf("trace", of.trace_id)} aria-label={`Open the trace ${short(of.trace_id)}`}>
          Open the trace <ArrowUpRight size={13} aria-hidden />
        </Link>
      </header>
      <div className="panes">
        <Pane name="Input" text={of.input} />
        <Pane name="Output" text={of.output} />
        <Pane name="Why it failed" text={of.reading?.wrong || of.detail}>
          {of.reading && <Reading of={of.reading} recorded={of.detail} />}
        </Pane>
      </div>
    </article>
  );
}

/** Who read the trace, what that cost, and what was recorded. */
function Reading({ of, recorded }: { of: Schemas["TraceReading"]; recorded: string }) {
  return (
    <p className="muted small" style={{ margin: "6px 0 0" }}>
      Read by {line(of.model, 60)}, {of.cost_usd === null ? "cost not known" : dollars(of.cost_usd)}.{" "}
      {of.wrong ? recorded && `Recorded: ${line(recorded, 200)}` : "It saw nothing wrong."}
    </p>
  );
}

function Pane({ name, text, children }: { name: string; text: string; children?: ReactNode }) {
  return (
    <div>
      <h3>{name}</h3>
      {text ? (
        <pre dir="auto" tabIndex={0} role="group" aria-label={name}>
          {visible(text)}
        </pre>
      ) : (
        <span className="muted">none recorded</span>
      )}
      {children}
    </div>
  );
}

const ACTS: Record<string, { label: string; title: string; confirm: string; says: string; done: string }> = {
  ignored: { label: "Ignore …", title: "Ignore this problem?", confirm: "Ignore it", says: "Nothing works on it any more, and it leaves the list of what is to be fixed. It keeps counting its traces, and can be reopened.", done: "It is ignored." },
  open: { label: "Reopen …", title: "Reopen this problem?", confirm: "Reopen it", says: "It is back in the list of what is to be fixed, and the autopilot may work on it.", done: "It is open again." },
  fixed: { label: "Mark fixed …", title: "Is this problem fixed?", confirm: "Mark it fixed", says: "For what was fixed outside Ratchet. If the same failure comes up in later traces, it is reopened as “returned”.", done: "It is marked fixed." },
};

function Acts({ problem }: { problem: Schemas["Problem"] }) {
  const queries = useQueryClient();
  const session = useSession();
  const set = (state: "ignored" | "open" | "fixed") => async (reason: string) => {
    await api.POST("/v1/problems/{id}/state", { params: { path: { id: problem.id } }, body: { state, reason, by: session.data?.key_name || "dashboard" } });
    await queries.invalidateQueries({ queryKey: ["problems"] });
  };
  return (
    <>
      {SETTABLE[problem.state].map((state) => {
        const act = ACTS[state];
        if (!act) return null;
        return (
          <Ask key={state} label={act.label} title={act.title} confirm={act.confirm} needs="admin" reason keeps="the problem's history" done={act.done} act={set(state as "open")}>
            <p>
              <b>{line(problem.title, 160)}</b>
            </p>
            <p>{act.says}</p>
          </Ask>
        );
      })}
      {isOpen(problem.state) && <Command text={`ratchet problems show ${short(problem.id)}`} />}
    </>
  );
}
