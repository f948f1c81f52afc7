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
import { Calls } from "./calls";
import type { Which } from "./observed";

const FINAL = ["done", "quarantined", "dropped"];

export function CyclePage() {
  const { id } = useParams({ from: "/cycles/$id" });
  const cycle = useQuery({ queryKey: ["cycles", id], queryFn: () => api.GET("/v1/cycles/{id}", { params: { path: { id } } }) });
  return (
    <Page title={`Cycle ${short(id)}`} actions={<Command text={`ratchet explain ${short(id)}`} />}>
      {waiting(cycle)}
      {cycle.data && <Shown cycle={cycle.data.cycle} moves={cycle.data.transitions} />}
    </Page>
  );
}

function Shown({ cycle, moves }: { cycle: Schemas["Cycle"]; moves: Schemas["CycleTransition"][] }) {
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
        {!FINAL.includes(cycle.state) && <Orders cycle={cycle} />}
      </div>
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
            <h3 style={{ margin: 0 }}>{words(decision.stage)}</h3>
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

function Orders({ cycle }: { cycle: Schemas["Cycle"] }) {
  const queries = useQueryClient();
  const session = useSession();
  const by = session.data?.key_name || "dashboard";
  const tell = (verb: "approve" | "deny" | "stop") => async (reason: string) => {
    await api.POST("/v1/agents/{name}/autopilot", { params: { path: { name: cycle.agent } }, body: { verb, by, reason, cycle_id: cycle.id, candidate_id: verb === "stop" ? "" : cycle.candidate_id } });
    await queries.invalidateQueries();
  };
  return (
    <>
      {cycle.state === "approval" && (
        <>
          <Ask label="Approve …" title="Approve this candidate?" confirm="Approve" needs="admin" act={tell("approve")}>
            <p>The autopilot goes on with it: to a canary or a pull request, as its policy says. A watch takes it back if live scores fall.</p>
          </Ask>
          <Ask label="Deny …" title="Deny this candidate?" confirm="Deny" needs="admin" danger reason act={tell("deny")}>
            <p>The cycle ends without a release. The candidate and its evidence are kept.</p>
          </Ask>
        </>
      )}
      <Ask label="Stop …" title="Stop this cycle?" confirm="Stop" needs="admin" danger reason act={tell("stop")}>
        <p>The cycle ends. What it has released stays released; roll that back on its own page.</p>
      </Ask>
    </>
  );
}
