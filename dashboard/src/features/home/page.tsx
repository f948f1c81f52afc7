// Home: what changed last and why, what needs a person, and how each agent does.
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { Bars, Line } from "../../charts/series";
import { counted, dollars, duration, line, number, score, short, words } from "../../lib/format";
import { wilson } from "../../lib/interval";
import { awaited } from "../../lib/waits";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Facts, Figure, Page, State, Time, waiting } from "../../ui/basics";

const SPANS: [string, string][] = [
  ["24", "day"],
  ["168", "week"],
  ["720", "30 days"],
];

export function HomePage() {
  const { hours = "168" } = useSearch({ from: "/" });
  const overview = useQuery({
    queryKey: ["overview", hours],
    queryFn: () => api.GET("/v1/overview", { params: { query: { hours: Number(hours) } } }),
    placeholderData: (before) => before,
  });
  const data = overview.data;
  return (
    <Page
      title="Home"
      actions={SPANS.map(([value, label]) => (
        <Link key={value} to="/" search={{ hours: value }} aria-current={value === hours ? "true" : undefined} className={value === hours ? "badge info" : "badge"}>
          {label}
        </Link>
      ))}
    >
      {waiting(overview)}
      {data && (
        <>
          <LastChange latest={data.latest} releases={data.releases} />
          <Needs waiting={data.waiting} />
          <Underway runs={data.runs} atWork={data.at_work} now={data.now} />
          <h2>Agents</h2>
          {data.agents.length === 0 ? (
            <Empty command="ratchet demo">
              No agent has been seen yet. Point an agent at this server, or watch the loop turn on an example:
            </Empty>
          ) : (
            <div className="grid">
              {data.agents.map((agent) => (
                <Agent key={agent.name} agent={agent} />
              ))}
            </div>
          )}
          {data.more && <p className="muted small">The newest {counted(data.counted, "trace")} are counted; there are more in this time.</p>}
        </>
      )}
    </Page>
  );
}

function LastChange({ latest, releases }: { latest: Schemas["Experiment"][]; releases: Schemas["Release"][] }) {
  const release = releases.find((each) => !each.draft);
  const newest = latest[0];
  if (!release && !newest)
    return (
      <Empty command="ratchet improve">
        Nothing has been decided yet. One command measures the agent, looks for something better and proves it:
      </Empty>
    );
  const proved = release && latest.find((experiment) => experiment.id === release.experiment_id);
  // One that was taken back or declined is settled: it is no part of the agent.
  const stands = release && !["rolled_back", "closed"].includes(release.state);
  return (
    <div className="sides">
      {release && stands && (
        <section className="box" aria-labelledby="last-change">
          <div className="spread">
            <h3 id="last-change" style={{ margin: 0 }}>
              The last change
            </h3>
            <span className="muted">
              <Time at={release.created_at} />
            </span>
          </div>
          <p className="verdict">{proved?.decision?.sentence || `Candidate ${short(release.candidate_id)} was released.`}</p>
          <div className="row">
            <State of={release.state} />
            <span className="muted">{release.agent ? `at run time, in ${line(release.agent, 60)}` : `on the branch ${line(release.branch, 80)}`}</span>
            <Link to={pathOf("release", release.id)}>Why it was shipped, and how to undo it</Link>
          </div>
        </section>
      )}
      {newest && !(stands && newest.id === proved?.id) && (
        <section className="box" aria-labelledby="last-decision">
          <div className="spread">
            <h3 id="last-decision" style={{ margin: 0 }}>
              The last decision
            </h3>
            <span className="muted">
              <Time at={newest.created_at} />
            </span>
          </div>
          <p className="verdict">{newest.decision?.sentence || "The experiment is under way."}</p>
          <div className="row">
            {newest.decision && <State of={newest.decision.verdict} />}
            <Link to={pathOf("experiment", newest.id)}>The proof</Link>
          </div>
        </section>
      )}
    </div>
  );
}

function Needs({ waiting: items }: { waiting: Schemas["Waiting"][] }) {
  return (
    <>
      <h2>Needs a person</h2>
      {items.length === 0 ? (
        <p className="muted">Nothing.</p>
      ) : (
        <ul className="stack" style={{ listStyle: "none", padding: 0, margin: 0 }}>
          {items.map((item) => (
            <li key={`${item.kind}/${item.id}`} className="box row">
              <span className="badge warn">! {words(item.kind)}</span>
              {item.noun ? <Link to={pathOf(item.noun, item.id)}>{item.title}</Link> : <span>{item.title}</span>}
              <span className="muted grow wrap">{item.detail}</span>
              {item.command && <Command text={item.command} />}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Underway({ runs, atWork, now }: { runs: Schemas["Run"][]; atWork: Record<string, Schemas["LongWait"][]>; now: number }) {
  const open = runs.filter((run) => atWork[run.id]);
  if (open.length === 0) return null;
  return (
    <>
      <h2>Under way</h2>
      <ul className="stack" style={{ listStyle: "none", padding: 0, margin: 0 }}>
        {open.map((run) => (
          <li key={run.id} className="box row">
            <State of={run.stage} />
            <Link to={pathOf("run", run.id)}>Run {short(run.id)}</Link>
            <span className="muted grow wrap">{awaited(atWork[run.id] ?? [], now) || run.agent}</span>
            <Time at={run.updated_at} />
          </li>
        ))}
      </ul>
    </>
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
