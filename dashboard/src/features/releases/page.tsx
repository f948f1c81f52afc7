// One release: why it was shipped, what it changed, where it is, and the way back.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { api, type Schemas } from "../../api/client";
import { Interval } from "../../charts/interval";
import { line, moment, number, score, short, signed, words } from "../../lib/format";
import { ends } from "../../lib/interval";
import { pathOf } from "../../lib/paths";
import { Behind, Command, Facts, Figure, Page, State, Time, type Where, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { Outside } from "../../ui/outside";
import { Harmed } from "../cycles/harmed";
import { liveShare } from "./share";
import { Changes } from "../runs/changes";

export function ReleasePage() {
  const { id } = useParams({ from: "/releases/$id" });
  const release = useQuery({ queryKey: ["releases", id], queryFn: () => api.GET("/v1/releases/{id}", { params: { path: { id } } }) });
  const data = release.data;
  return (
    <Page
      title={data ? headline(data) : "Release"}
      above={
        <>
          <Link to="/releases">Releases</Link> · {short(id)}
          {data && <>, made <Time at={data.created_at} /></>}
        </>
      }
      actions={data && <RollBack release={data} />}
    >
      {waiting(release)}
      {data && <Shown release={data} />}
    </Page>
  );
}

/** What became of a release, in a few words. */
function headline(release: Schemas["Release"]): string {
  const where = release.agent ? `for ${line(release.agent, 60)}` : release.request ? `as pull request #${release.request.number}` : `on the branch ${line(release.branch, 80)}`;
  const said: Record<Schemas["Release"]["state"], string> = {
    active: `In effect ${where}`,
    merged: release.request ? `Merged ${where}` : "Merged",
    proposed: `Proposed ${where}`,
    branched: `Waits ${where}`,
    closed: "Declined: its pull request was closed",
    rolled_back: `Rolled back ${release.agent ? where : ""}`.trim(),
  };
  return `${said[release.state]}${release.draft ? ", a draft" : ""}`;
}

function RollBack({ release }: { release: Schemas["Release"] }) {
  const queries = useQueryClient();
  if (release.state === "rolled_back") return null;
  return (
    <Ask
      label="Roll back …"
      title={`Roll back release ${short(release.id)}?`}
      confirm="Roll back"
      needs="admin"
      danger
      reason
      keeps="the release"
      done={`Release ${short(release.id)} is rolled back.`}
      act={async (reason) => {
        await api.POST("/v1/releases/{id}/rollback", { params: { path: { id: release.id } }, body: { reason } });
        await queries.invalidateQueries();
      }}
    >
      {release.agent ? (
        <p>
          Calls of <b>{release.agent}</b> get what was active before, within two seconds. The candidate and its evidence stay; it can be made active again under Prompts.
        </p>
      ) : release.state === "merged" ? (
        <p>
          A branch that reverts the commit is made, pushed if this project pushes, and its pull request opened. Nothing changes in your code until that is merged.
        </p>
      ) : (
        <p>
          The branch <code>{release.branch}</code> is deleted and an open pull request is closed with a comment. The commit <code>{short(release.commit)}</code> stays: the branch can be made again from it.
        </p>
      )}
      <p className="muted small">The command line does the same: ratchet rollback {short(release.id)}</p>
    </Ask>
  );
}

function Shown({ release }: { release: Schemas["Release"] }) {
  const experiment = useQuery({
    queryKey: ["experiments", release.experiment_id],
    enabled: Boolean(release.experiment_id),
    queryFn: () => api.GET("/v1/experiments/{id}", { params: { path: { id: release.experiment_id } } }),
  });
  const cycles = useQuery({ queryKey: ["cycles"], queryFn: () => api.GET("/v1/cycles", { params: { query: { limit: 100 } } }) });
  const cycle = cycles.data?.cycles.find((each) => each.release_id === release.id || (release.experiment_id && each.experiment_id === release.experiment_id));
  const decision = experiment.data?.decision;
  const pairs = { to: pathOf("experiment", release.experiment_id), hash: "pairs" };
  return (
    <>
      {release.state === "rolled_back" && (
        <div className="note bad">
          <p>
            <b>It was rolled back</b>
            {release.rollback && <>: {line(release.rollback, 200)}</>}. What follows is why it had been shipped.
          </p>
          {release.rollback_reason && <p>“{line(release.rollback_reason, 2_000)}”</p>}
        </div>
      )}
      <div className="row" style={{ marginBottom: 12 }}>
        <State of={release.state} />
        {decision && (
          <span className="lead">
            {line(decision.metric, 60)} <b>{score(decision.baseline)}</b> → <b>{score(decision.candidate)}</b>
          </span>
        )}
        {release.experiment_id && <Link to={pathOf("experiment", release.experiment_id)}>Both outputs of each task</Link>}
      </div>
      {cycle && <Harmed decisions={cycle.decisions} />}
      <h2>What it changed</h2>
      <Changes candidate={release.candidate_id} since={release.baseline_id} />
      <h2>Where it is</h2>
      {release.agent && <Live release={release} />}
      <Facts
        of={[
          ["made", moment(release.created_at)],
          ["agent at run time", release.agent],
          ["repository", release.repo],
          ["branch", release.branch && <code key="branch">{release.branch}</code>],
          ["commit", release.commit && <code key="commit">{short(release.commit)}</code>],
          ["pull request", release.request && <Outside key="request" to={release.request.url}>{`#${release.request.number}, ${release.request.state}`}</Outside>],
          ["reverting request", release.revert && <Outside key="revert" to={release.revert.url}>{`#${release.revert.number}, ${release.revert.state}`}</Outside>],
          ["rolled back", release.rollback],
        ]}
      />
      {decision && <HowWeKnow release={release} decision={decision} pairs={pairs} />}
    </>
  );
}

function HowWeKnow({ release, decision, pairs }: { release: Schemas["Release"]; decision: Schemas["Decision"]; pairs: Where }) {
  const explanation = useQuery({
    queryKey: ["experiments", release.experiment_id, "explanation"],
    queryFn: () => api.GET("/v1/experiments/{id}/explanation", { params: { path: { id: release.experiment_id } } }),
  });
  return (
    <details className="fold" open>
      <summary>How we know</summary>
      <div className="folded">
        <p style={{ marginTop: 14 }}>{decision.sentence}</p>
        <div className="figures">
          <Figure label={`baseline, ${decision.metric}`} behind={pairs}>{score(decision.baseline)}</Figure>
          <Figure label="candidate" behind={pairs}>{score(decision.candidate)}</Figure>
          <Figure label={`gain, with its ${number(100 * (1 - decision.alpha), 3)} % interval`} behind={pairs}>
            {signed(decision.candidate - decision.baseline)} <span className="small muted">{ends(decision.interval)}</span>
          </Figure>
          <Figure label="pairs" behind={pairs}>{number(decision.pairs)}</Figure>
        </div>
        <Interval label="Gain" point={decision.candidate - decision.baseline} interval={decision.interval as [number, number]} />
        <div>
          <Command text={`ratchet verify ${release.evidence || short(release.experiment_id)}`} />
        </div>
        {explanation.data && explanation.data.sentences.length > 0 && (
          <>
            <h2>Why it was shipped</h2>
            {explanation.data.sentences.map((sentence, at) => (
              <p key={at}>{sentence}</p>
            ))}
          </>
        )}
      </div>
    </details>
  );
}

/** Which live calls get it, and the cycle that watches it. */
function Live({ release }: { release: Schemas["Release"] }) {
  const params = { path: { name: release.agent } };
  const activations = useQuery({ queryKey: ["agents", release.agent, "history"], queryFn: () => api.GET("/v1/agents/{name}/history", { params }) });
  const splits = useQuery({ queryKey: ["agents", release.agent, "splits"], queryFn: () => api.GET("/v1/agents/{name}/traffic/history", { params }) });
  const cycles = useQuery({ queryKey: ["cycles", "of", release.agent], queryFn: () => api.GET("/v1/cycles", { params: { query: { agent: release.agent } } }) });
  const cycle = cycles.data?.cycles.find((each) => each.release_id === release.id);
  return (
    <Facts
      of={[
        ["calls that get it", activations.data && splits.data && <Behind key="calls" where={{ to: "/traces", search: { agent: release.agent, candidate: release.candidate_id } }}>{liveShare(release.candidate_id, activations.data.activations[0]?.candidate_id, splits.data.splits[0])}</Behind>],
        ["watched by", cycle && <Link key="cycle" to={pathOf("cycle", cycle.id)}>cycle {short(cycle.id)}, {words(cycle.state)}</Link>],
      ]}
    />
  );
}
