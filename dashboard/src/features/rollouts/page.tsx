// One rollout: its task, what came out, its scores, its trace, and people's labels.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { api } from "../../api/client";
import { dollars, duration, line, moment, number, short, text } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Facts, Figure, Page, State, waiting } from "../../ui/basics";
import { LongText } from "../../ui/long_text";
import { Label } from "../evaluators/label";
import { TryEvaluator } from "../evaluators/try";
import { Rerun, RunAgain } from "../reruns/run_again";

export function RolloutPage() {
  const { id } = useParams({ from: "/rollouts/$id" });
  const { rerun } = useSearch({ from: "/rollouts/$id" });
  const navigate = useNavigate({ from: "/rollouts/$id" });
  const path = { path: { id } };
  const rollout = useQuery({ queryKey: ["rollouts", id], queryFn: () => api.GET("/v1/rollouts/{id}", { params: path }) });
  const scores = useQuery({ queryKey: ["rollouts", id, "scores"], queryFn: () => api.GET("/v1/rollouts/{id}/scores", { params: path }) });
  const attempts = useQuery({ queryKey: ["rollouts", id, "attempts"], queryFn: () => api.GET("/v1/rollouts/{id}/attempts", { params: path }) });
  const spans = useQuery({ queryKey: ["rollouts", id, "spans"], queryFn: () => api.GET("/v1/rollouts/{id}/spans", { params: path }), refetchInterval: false });
  const data = rollout.data;
  const traces = [...new Set(spans.data?.spans.map((span) => span.trace_id) ?? [])];
  return (
    <Page
      title={data ? `Rollout of task ${line(data.task_id, 80)}` : "Rollout"}
      above={
        <>
          <Link to="/rollouts">Rollouts</Link> · {short(id)}
        </>
      }
      actions={
        <>
          <RunAgain of={{ rollout: id }} show={(made) => void navigate({ search: { rerun: made } })} />
          <Command text={`ratchet show ${short(id)}`} />
        </>
      }
    >
      {waiting(rollout)}
      {rerun && <Rerun key={rerun} id={rerun} close={() => void navigate({ search: {} })} />}
      {data && (
        <>
          <div className="figures">
            <Figure label="status">
              <State of={data.status} />
            </Figure>
            {scores.data?.scores.map((score) => (
              <Figure key={`${score.evaluator}${score.version}`} label={`${score.evaluator}${score.unit ? `, ${score.unit}` : ""}`} title={score.rationale}>
                {score.error ? "failed" : number(score.value)}
              </Figure>
            ))}
            <Figure label="took">{duration(data.duration_s)}</Figure>
            <Figure label="cost">{dollars(data.cost_usd, data.known_usd)}</Figure>
          </div>
          {data.error && (
            <div className="note bad">
              <LongText text={data.error} mono />
            </div>
          )}
          <Facts
            of={[
              ["candidate", data.candidate_id && <Link key="candidate" to={pathOf("candidate", data.candidate_id)}>{short(data.candidate_id)}</Link>],
              ["for", data.purpose && <Purpose key="purpose" of={data.purpose} />],
              ["seed", number(data.seed)],
              ["created", moment(data.created_at)],
              ["attempts", attempts.data?.attempts.map((attempt) => `${attempt.fence}: ${attempt.status}${attempt.error ? ` (${line(attempt.error, 80)})` : ""}`).join("; ")],
              ["trace", traces.length > 0 && traces.map((trace) => <Link key={trace} to={pathOf("trace", trace)}>{short(trace)} </Link>)],
            ]}
          />
          <div className="row">
            <Label of={{ rollout_id: data.id }} />
            <TryEvaluator subject={data.id} />
          </div>
          <h2>Input</h2>
          <LongText text={text(data.input)} mono />
          {data.expected != null && (
            <>
              <h2>Expected</h2>
              <LongText text={text(data.expected)} mono />
            </>
          )}
          <h2>Output</h2>
          <LongText text={text(data.output)} mono />
          {scores.data?.scores
            .filter((score) => score.rationale || score.error)
            .map((score) => (
              <section key={`${score.evaluator}${score.version}`}>
                <h3>What {score.evaluator} says</h3>
                <LongText text={score.error || score.rationale} />
              </section>
            ))}
        </>
      )}
    </Page>
  );
}

/** Whose work rollouts of a purpose are. */
const MADE_BY: Record<string, string> = { learn: "run", prove: "run", train: "run", shadow: "cycle" };

/** What it was made for, such as "prove/RUN", with a link to the run or cycle. */
function Purpose({ of }: { of: string }) {
  const [what = "", id] = of.split("/");
  const kind = MADE_BY[what];
  if (!kind || !id) return <>{line(of)}</>;
  return (
    <>
      {line(what, 40)}, in <Link to={pathOf(kind, id)}>{`${kind} ${short(id)}`}</Link>
    </>
  );
}
