// One turn of the autopilot: what it noticed, where it is and why it waits, and what a person may tell it.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { Interval } from "../../charts/interval";
import { counted, dollars, line, moment, number, short, signed, words } from "../../lib/format";
import { ends } from "../../lib/interval";
import { pathOf } from "../../lib/paths";
import { Behind, Command, Facts, Page, State, Time, type Where, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { Outside } from "../../ui/outside";
import { useSession } from "../../ui/session";
import { Changes } from "../runs/changes";
import { Calls } from "./calls";
import { Harmed } from "./harmed";
import type { Which } from "./observed";

const FINAL = ["done", "quarantined", "dropped"];

export function CyclePage() {
  const { id } = useParams({ from: "/cycles/$id" });
  const cycle = useQuery({ queryKey: ["cycles", id], queryFn: () => api.GET("/v1/cycles/{id}", { params: { path: { id } } }) });
  return (
    <Page
      title={cycle.data ? line(cycle.data.cycle.trigger, 160) || `Cycle ${short(id)}` : "Cycle"}
      above={
        <>
          <Link to="/autopilot">Autopilot</Link> · cycle {short(id)}
          {cycle.data && <> of {line(cycle.data.cycle.agent, 60)}</>}
        </>
      }
      actions={<Command text={`ratchet explain ${short(id)}`} />}
    >
      {waiting(cycle)}
      {cycle.data && <Shown detail={cycle.data} />}
    </Page>
  );
}

function Shown({ detail }: { detail: Schemas["CycleDetail"] }) {
  const { cycle, transitions: moves } = detail;
  const seen = cycle.decisions.map((each) => each.baseline_count + each.candidate_count + each.missing + each.blocked);
  const { data } = useQuery({
    queryKey: ["stage-calls", cycle.id, cycle.version, seen],
    enabled: cycle.decisions.length > 0,
    refetchInterval: false,
    placeholderData: (before) => before,
    queryFn: () => api.GET("/v1/cycles/{id}/calls", { params: { path: { id: cycle.id } } }),
  });
  const calls = data?.calls ?? [];
  const behind = (stage: string, which?: Which, group?: string): Where | undefined =>
    calls.some((call) => call.stage === stage) ? { to: pathOf("cycle", cycle.id), search: { stage, which, group }, hash: "calls" } : undefined;
  return (
    <>
      <p className="verdict">{cycle.message || cycle.waits || `It is in the state “${words(cycle.state)}”.`}</p>
      <div className="row">
        <State of={cycle.state} />
        {!FINAL.includes(cycle.state) && <Orders detail={detail} />}
      </div>
      <Harmed decisions={cycle.decisions} />
      <Told detail={detail} />
      <Facts
        of={[
          ["agent", <Link key="agent" to="/traces" search={{ agent: cycle.agent }}>{cycle.agent}</Link>],
          ["noticed", cycle.trigger],
          ["began", <Time key="began" at={cycle.started_at} />],
          ["in this state since", <Time key="entered" at={cycle.entered_at} />],
          ["waits until", cycle.waits_until != null && moment(cycle.waits_until)],
          ["dataset", cycle.dataset && <Link key="dataset" to={pathOf("dataset", cycle.dataset.split("@")[0] ?? "")}>{cycle.dataset}</Link>],
          ["may spend", cycle.rollouts != null && `${number(cycle.rollouts)} rollouts${cycle.dollars != null ? `, ${dollars(cycle.dollars)}` : ""}`],
          ["run", cycle.run_id && <Link key="run" to={pathOf("run", cycle.run_id)}>{short(cycle.run_id)}</Link>],
          ["candidate", cycle.candidate_id && <Link key="candidate" to={pathOf("candidate", cycle.candidate_id)}>{short(cycle.candidate_id)}</Link>],
          ["experiment", cycle.experiment_id && <Link key="experiment" to={pathOf("experiment", cycle.experiment_id)}>{short(cycle.experiment_id)}</Link>],
          ["release", cycle.release_id && <Link key="release" to={pathOf("release", cycle.release_id)}>{short(cycle.release_id)}</Link>],
          ["pull request", cycle.request && <Outside key="request" to={cycle.request} />],
          ["not at run time", cycle.runtime_refusal],
        ]}
      />
      {cycle.decisions.map((decision, at) => (
        <section key={at} className="box" style={{ margin: "8px 0" }}>
          <div className="row">
            <h2 style={{ margin: 0 }}>{words(decision.stage)}</h2>
            {decision.verdict && <State of={decision.verdict} />}
          </div>
          <p>{decision.sentence}</p>
          <p className="muted">
            e-value {number(decision.e_value)}, {number(decision.needed)} needed; <Counts of={decision} behind={behind} kept={(arm) => kept(cycle, moves, decision.stage, arm)} before={calls.filter((call) => call.part === "before").length} />
          </p>
          {decision.interval && decision.baseline != null && decision.candidate != null && (
            <>
              <div className="muted small">
                gain {signed(decision.candidate - decision.baseline)} {ends(decision.interval)}
              </div>
              <Interval label="Gain" point={decision.candidate - decision.baseline} interval={decision.interval as [number, number]} />
            </>
          )}
          {decision.guardrails.length > 0 && (
            <p>
              Guardrails:{" "}
              {decision.guardrails.map((each) => (
                <span key={each.metric}>
                  {each.metric} <State of={each.baseline == null ? "not measured" : each.passed ? "holds" : "not proved"} tone={each.passed ? "good" : "warn"} />{" "}
                </span>
              ))}
            </p>
          )}
          {decision.subgroups.length > 0 && <Groups of={decision.subgroups} behind={(group) => behind(decision.stage, undefined, group) ?? groupOf(kept(cycle, moves, decision.stage), group)} />}
        </section>
      ))}
      {calls.length > 0 && <Calls of={calls} metrics={Object.fromEntries(cycle.decisions.map((each) => [each.stage, each.metric]))} />}
      <h2>Moves</h2>
      <div className="scroll" tabIndex={0}>
        <table aria-label="Moves">
          <thead>
            <tr>
              <th className="num">no.</th>
              <th>when</th>
              <th>from</th>
              <th>to</th>
              <th>by</th>
              <th>rule</th>
            </tr>
          </thead>
          <tbody>
            {moves.map((move) => (
              <tr key={move.number}>
                <td className="num">{move.number}</td>
                <td className="whole">{moment(move.at)}</td>
                <td>{words(move.source)}</td>
                <td>{words(move.target)}</td>
                <td>{move.actor}</td>
                <td className="wrap long">{move.rule}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** How many calls a stage looked at, as links to them. A watch without a control share has no calls of a baseline. */
function Counts({ of, behind, kept, before }: { of: Schemas["StageDecision"]; behind: (stage: string, which: Which) => Where | undefined; kept: (arm: "baseline" | "candidate") => Where | undefined; before: number }) {
  const link = (arm: "baseline" | "candidate", said: string) => <Behind where={behind(of.stage, arm) ?? kept(arm)}>{said}</Behind>;
  return (
    <>
      {of.stage === "watch" && of.baseline_count === 0 ? (
        <>
          {link("candidate", `${counted(of.candidate_count, "call")} of the release`)}, compared with what{" "}
          {before > 0 ? <Behind where={behind("watch", "before")}>{counted(before, "call")} before it</Behind> : "came before it"} let expect
        </>
      ) : (
        <>
          {link("baseline", `${counted(of.baseline_count, "call")} of the baseline`)}, {link("candidate", `${number(of.candidate_count)} of the candidate`)}
        </>
      )}
      {of.blocked > 0 && (
        <>
          ; <Behind where={behind(of.stage, "blocked")}>{number(of.blocked)} blocked</Behind>
        </>
      )}
      {of.missing > 0 && (
        <>
          ; <Behind where={behind(of.stage, "without a score")}>{number(of.missing)} without a score</Behind>
        </>
      )}
    </>
  );
}

/**
 * Where the calls of a stage are that was measured before its calls were listed. A shadow stage makes rollouts of the
 * candidate; a canary's calls carry its id and their arm; a watch looks at all calls since it began.
 */
function kept(cycle: Schemas["Cycle"], moves: Schemas["CycleTransition"][], stage: string, arm?: "baseline" | "candidate"): Where | undefined {
  if (stage === "shadow") return arm === "baseline" ? undefined : { to: "/rollouts", search: { purpose: `shadow/${cycle.id}`, candidate: cycle.candidate_id } };
  if (stage === "canary") return { to: "/traces", search: { agent: cycle.agent, canary: cycle.id, arm } };
  const begun = moves.find((move) => move.target === "watch")?.at;
  if (stage !== "watch" || begun === undefined || arm === "baseline") return undefined;
  return { to: "/traces", search: { agent: cycle.agent, from: String(begun), candidate: arm && cycle.candidate_id } };
}

function groupOf(where: Where | undefined, group: string): Where | undefined {
  return where?.to === "/traces" ? { ...where, search: { ...where.search, group } } : where;
}

/** A gain overall may harm some: each group of the traffic by itself. */
function Groups({ of, behind }: { of: Schemas["SubgroupResult"][]; behind: (group: string) => Where | undefined }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table aria-label="Groups of the traffic">
        <thead>
          <tr>
            <th>group</th>
            <th className="num">calls</th>
            <th className="num">baseline</th>
            <th className="num">candidate</th>
            <th className="num">e-value for harm</th>
            <th>harmed, after correction for their number</th>
          </tr>
        </thead>
        <tbody>
          {of.map((group) => (
            <tr key={group.group}>
              <td className="wrap">{line(group.group, 80)}</td>
              <td className="num">
                <Behind where={behind(group.group)}>{number(group.count)}</Behind>
              </td>
              <td className="num">{number(group.baseline)}</td>
              <td className="num">{number(group.candidate)}</td>
              <td className="num">{number(group.e_value)}</td>
              <td>{group.harmed ? <State of="harmed" tone="bad" /> : "no"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Who does what a person decides, in a sentence; and how to start it where nobody does. */
function Who({ detail }: { detail: Schemas["CycleDetail"] }) {
  if (detail.running) return <>The autopilot of {line(detail.cycle.agent, 60)} is running and does it within seconds.</>;
  return (
    <>
      No autopilot is running: it is done once one is. <Command text="ratchet autopilot run" />
    </>
  );
}

/** What people told the autopilot about this cycle, with their reasons. */
function Told({ detail }: { detail: Schemas["CycleDetail"] }) {
  const open = detail.told.at(-1);
  if (!open) return null;
  const waits = !FINAL.includes(detail.cycle.state) && open.at > detail.cycle.entered_at;
  const said = { approve: "approved it", deny: "denied it", stop: "stopped it", pause: "paused the autopilot", resume: "let the autopilot go on" };
  return (
    <div className={waits ? "note warn" : "note"} role="status">
      {detail.told.map((told) => (
        <p key={told.at}>
          <b>{line(told.by, 60)}</b> {said[told.verb]} <Time at={told.at} />{told.reason ? `: “${line(told.reason, 500)}”` : "."}
        </p>
      ))}
      {waits && (
        <p>
          <Who detail={detail} />
        </p>
      )}
    </div>
  );
}

function Orders({ detail }: { detail: Schemas["CycleDetail"] }) {
  const { cycle } = detail;
  const queries = useQueryClient();
  const session = useSession();
  const by = session.data?.key_name || "dashboard";
  const tell = (verb: "approve" | "deny" | "stop") => async (reason: string) => {
    await api.POST("/v1/agents/{name}/autopilot", { params: { path: { name: cycle.agent } }, body: { verb, by, reason, cycle_id: cycle.id, candidate_id: verb === "stop" ? "" : cycle.candidate_id } });
    await queries.invalidateQueries();
  };
  const then = detail.running ? "The autopilot goes on within seconds." : "No autopilot is running: it goes on once one is.";
  const told = detail.told.some((each) => each.candidate_id === cycle.candidate_id && each.at > cycle.entered_at);
  return (
    <>
      {cycle.state === "approval" && !told && (
        <>
          <Ask label="Approve …" primary wide title="Approve this candidate?" confirm="Approve" needs="admin" done={`Approved. ${then}`} act={tell("approve")}>
            <Harmed decisions={cycle.decisions} />
            <p>
              {cycle.runtime_refusal ? "It becomes a pull request, since it cannot be released at run time." : "It goes on to live traffic, a small share first, or to a pull request, as autopilot.mode says. A watch takes it back if live scores fall."} <Who detail={detail} />
            </p>
            <h3>What it changes</h3>
            <Changes candidate={cycle.candidate_id} />
          </Ask>
          <Ask label="Deny …" title="Deny this candidate?" confirm="Deny" needs="admin" danger reason keeps="the cycle" done={`Denied. ${then}`} act={tell("deny")}>
            <p>
              The cycle ends without a release. The candidate and its evidence are kept. <Who detail={detail} />
            </p>
          </Ask>
        </>
      )}
      <Ask label="Stop …" title="Stop this cycle?" confirm="Stop" needs="admin" danger reason keeps="the cycle" done={`Told to stop. ${then}`} act={tell("stop")}>
        <p>
          The cycle ends. What it has released stays released; roll that back on its own page. <Who detail={detail} />
        </p>
      </Ask>
    </>
  );
}
