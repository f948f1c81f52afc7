// Home: what goes wrong, what was done about it, what needs a person, and how each agent does.
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { Bars, Line } from "../../charts/series";
import { counted, dollars, duration, line, number, score, short, words } from "../../lib/format";
import { wilson } from "../../lib/interval";
import { awaited } from "../../lib/waits";
import { pathOf } from "../../lib/paths";
import { NoProblems, useProblems } from "../problems/list";
import { ProblemRow } from "../problems/row";
import { isOpen } from "../problems/words";
import { costOf } from "./cost";
import { Command, Empty, Facts, Figure, Page, State, Time, waiting } from "../../ui/basics";

const SPANS: [string, string][] = [
  ["24", "day"],
  ["168", "week"],
  ["720", "30 days"],
];

/** Problems on this page; the others have a page of their own. */
const SHOWN = 6;

export function HomePage() {
  const { hours = "168" } = useSearch({ from: "/" });
  const overview = useQuery({
    queryKey: ["overview", hours],
    queryFn: () => api.GET("/v1/overview", { params: { query: { hours: Number(hours) } } }),
    placeholderData: (before) => before,
  });
  const data = overview.data;
  const empty = data && data.agents.length === 0 && data.runs.length === 0;
  return (
    <Page
      title="Home"
      actions={
        <nav className="switch" aria-label="Time">
          {SPANS.map(([value, label]) => (
            <Link key={value} to="/" search={{ hours: value }} aria-current={value === hours ? "true" : undefined}>
              {label}
            </Link>
          ))}
        </nav>
      }
    >
      {waiting(overview)}
      {empty && (
        <Empty command="ratchet init">
          Nothing has been seen yet. In your agent’s folder, this wires it to this server and finds what can be improved; <code>ratchet demo</code> shows the loop on an example.
        </Empty>
      )}
      {data && !empty && (
        <div className="columns">
          <div>
            <Problems />
            <h2>Agents</h2>
            {data.agents.length === 0 ? (
              <Empty command="ratchet init">No live trace has been received in this time. Wire the agent, so that it sends some:</Empty>
            ) : (
              <div className="grid agents">
                {data.agents.map((agent) => (
                  <Agent key={agent.name} agent={agent} />
                ))}
              </div>
            )}
          </div>
          <aside className="stack" style={{ gap: 14 }}>
            <Needs waiting={data.waiting} />
            {data.agents.length > 0 && <CostPerDay overview={data} />}
            <Improved releases={data.releases} latest={data.latest} />
            <Underway runs={data.runs} atWork={data.at_work} now={data.now} />
          </aside>
        </div>
      )}
    </Page>
  );
}

function Problems() {
  const found = useProblems();
  const open = found.data?.problems.filter((each) => isOpen(each.problem.state)) ?? [];
  const several = new Set(open.map((each) => each.problem.agent)).size > 1;
  const traces = found.data?.traces ?? 0;
  return (
    <section aria-labelledby="problems">
      <div className="spread" style={{ marginBottom: 10 }}>
        <h2 id="problems" style={{ margin: 0 }}>
          What goes wrong{open.length > 0 && <span className="muted"> · {counted(open.length, "problem")} in {counted(traces, "trace")}</span>}
        </h2>
        {(found.data?.problems.length ?? 0) > 0 && <Link to="/problems">All problems</Link>}
      </div>
      {waiting(found)}
      {found.data && open.length === 0 && (found.data.problems.length > 0 ? <Empty>Every problem that was found is fixed or ignored.</Empty> : <NoProblems of={found.data} />)}
      {open.length > 0 && (
        <ul className="bare problems" aria-label="Problems">
          {open.slice(0, SHOWN).map((each) => (
            <ProblemRow key={each.problem.id} of={each} withAgent={several} />
          ))}
        </ul>
      )}
    </section>
  );
}

function CostPerDay({ overview }: { overview: Schemas["Overview"] }) {
  const cost = costOf(overview.days);
  return (
    <section className="box" aria-labelledby="cost">
      <h2 id="cost" style={{ margin: 0 }}>
        Cost per day
      </h2>
      <div className="score">
        <b>{cost.known ? dollars(cost.perDay) : `≥ ${dollars(cost.perDay)}`}</b>
      </div>
      {!cost.known && <p className="muted small">The price of some calls is not known.</p>}
      <Bars label="Cost" unit="dollars" of={cost.days} height={44} />
    </section>
  );
}

/** What stands of what was proved and shipped, and the last decision where it is another one. */
function Improved({ releases, latest }: { releases: Schemas["Release"][]; latest: Schemas["Experiment"][] }) {
  const standing = releases.filter((each) => !each.draft && ["active", "merged", "branched", "proposed"].includes(each.state));
  const newest = latest[0];
  const release = standing[0];
  if (!release && !newest)
    return (
      <section className="box">
        <h2 style={{ marginTop: 0 }}>Answers improved</h2>
        <p className="muted">Nothing has been decided yet. One command measures the agent, looks for something better and proves it:</p>
        <Command text="ratchet improve" />
      </section>
    );
  const proved = release && latest.find((experiment) => experiment.id === release.experiment_id);
  const shipped = standing.filter((each) => each.state === "active" || each.state === "merged").length;
  return (
    <>
      {release && (
        <section className="box" aria-labelledby="last-change">
          <div className="spread">
            <h2 id="last-change" style={{ margin: 0 }}>
              Answers improved
            </h2>
            <span className="muted small">
              <Time at={release.created_at} />
            </span>
          </div>
          {proved?.decision && (
            <div className="score">
              <b>
                {proved.decision.baseline.toFixed(2)} → {proved.decision.candidate.toFixed(2)}
              </b>
              <small>{line(proved.decision.metric, 40)}</small>
            </div>
          )}
          <p className="small">{proved?.decision?.sentence || `Candidate ${short(release.candidate_id)} was released.`}</p>
          <div className="row small">
            <State of={release.state} />
            <span className="muted wrap">{release.agent ? `for ${line(release.agent, 60)}, at run time` : line(release.branch, 80)}</span>
          </div>
          <p className="small" style={{ margin: "8px 0 0" }}>
            <Link to={pathOf("release", release.id)}>Why it was shipped, and how to undo it</Link>
            {shipped > 1 && <span className="muted"> · {number(shipped)} of the last releases are in effect</span>}
          </p>
        </section>
      )}
      {newest && newest.id !== proved?.id && (
        <section className="box" aria-labelledby="last-decision">
          <div className="spread">
            <h2 id="last-decision" style={{ margin: 0 }}>
              The last decision
            </h2>
            <span className="muted small">
              <Time at={newest.created_at} />
            </span>
          </div>
          <p className="small">{newest.decision?.sentence || "The experiment is under way."}</p>
          <div className="row small">
            {newest.decision && <State of={newest.decision.verdict} />}
            <Link to={pathOf("experiment", newest.id)}>Both outputs of each task</Link>
          </div>
        </section>
      )}
    </>
  );
}

function Needs({ waiting: items }: { waiting: Schemas["Waiting"][] }) {
  return (
    <section className="box" style={{ padding: 0 }} aria-labelledby="needs">
      <div className="spread" style={{ padding: "14px 18px 6px" }}>
        <h2 id="needs" style={{ margin: 0 }}>
          Needs a person
        </h2>
        {items.length > 0 && <span className="badge warn">{number(items.length)}</span>}
      </div>
      {items.length === 0 ? (
        <p className="muted" style={{ padding: "0 18px 14px", margin: 0 }}>
          Nothing waits for you.
        </p>
      ) : (
        <ul className="bare needs">
          {items.map((item) => (
            <li key={`${item.kind}/${item.id}`}>
              <div className="what">
                {item.noun ? <Link to={pathOf(item.noun, item.id)}>{item.title}</Link> : <b>{item.title}</b>}
                {item.detail && <div className="muted small">{line(item.detail, 160)}</div>}
              </div>
              {item.command && <Command text={item.command} />}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Underway({ runs, atWork, now }: { runs: Schemas["Run"][]; atWork: Record<string, Schemas["LongWait"][]>; now: number }) {
  const open = runs.filter((run) => atWork[run.id]);
  if (open.length === 0) return null;
  return (
    <section className="box" aria-labelledby="underway">
      <h2 id="underway" style={{ marginTop: 0 }}>
        Under way
      </h2>
      <ul className="bare stack">
        {open.map((run) => (
          <li key={run.id}>
            <div className="row">
              <State of={run.stage} />
              <Link to={pathOf("run", run.id)}>{line(run.agent, 60)}</Link>
              <span className="muted small">
                <Time at={run.updated_at} />
              </span>
            </div>
            <div className="muted small wrap">{awaited(atWork[run.id] ?? [], now)}</div>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A 95 % interval, small, behind its figure. */
function Within({ of, shown }: { of: [number, number] | null; shown: (value: number) => string }) {
  if (!of) return null;
  return (
    <span className="small muted" title="95 % interval">
      [{shown(of[0])}, {shown(of[1])}]
    </span>
  );
}

function Agent({ agent }: { agent: Schemas["AgentOverview"] }) {
  const cycle = agent.cycle;
  const [first, second] = agent.series;
  const step = first && second ? second.at - first.at : 0;
  const traces = (search: Record<string, string | undefined>) => ({ to: "/traces", search: { agent: agent.name, from: first ? String(first.at) : undefined, ...search } });
  return (
    <section className="box stack" aria-label={`Agent ${agent.name}`}>
      <div className="spread">
        <Link to="/traces" search={{ agent: agent.name }} className="clip">
          <b>{agent.name}</b>
        </Link>
        {cycle && <State of={cycle.state} />}
      </div>
      <div className="figures">
        <Figure label="traces" behind={traces({})}>{number(agent.traces)}</Figure>
        <Figure label={`failed, ${number(agent.errors)}`} behind={traces({ errors: "1" })}>
          {agent.traces ? `${number((100 * agent.errors) / agent.traces, 2)} %` : "–"} <Within of={wilson(agent.errors / agent.traces, agent.traces)} shown={(value) => number(Math.round(100 * value))} />
        </Figure>
        <Figure label={agent.feedback_count ? `feedback (0 to 1) of ${agent.feedback_count}` : "feedback"} behind={agent.feedback_count ? traces({ feedback: "1" }) : undefined}>
          {score(agent.feedback)} <Within of={agent.feedback == null ? null : wilson(agent.feedback, agent.feedback_count)} shown={(value) => value.toFixed(2)} />
        </Figure>
        <Figure label="cost" behind={traces({ sort: "costliest" })}>{dollars(agent.cost_usd, agent.known_usd)}</Figure>
      </div>
      <div>
        <div className="muted small">traces{step && `, each bar ${duration(step)}`}; failed ones in orange, below</div>
        <Bars label={`Traces of ${agent.name}`} unit="traces" behind={(at) => traces({ from: String(at), until: String(at + step) })} of={agent.series.map((bucket) => ({ at: bucket.at, value: bucket.traces, failed: bucket.errors }))} />
      </div>
      {agent.series.some((bucket) => bucket.feedback != null) && (
        <div>
          <div className="muted small">feedback, 0 to 1</div>
          <Line label={`Feedback of ${agent.name}`} of={agent.series.map((bucket) => ({ at: bucket.at, value: bucket.feedback }))} />
        </div>
      )}
      {cycle ? (
        <Facts
          of={[
            ["autopilot", <Link key="cycle" to={pathOf("cycle", cycle.id)}>{words(cycle.state)}</Link>],
            ["because", cycle.trigger],
            ["waits", cycle.waits],
            ["until", cycle.waits_until != null && <Time key="until" at={cycle.waits_until} />],
          ]}
        />
      ) : (
        <p className="muted small">The autopilot has not noticed anything to improve.</p>
      )}
    </section>
  );
}
