// One experiment: the verdict in a sentence, then the evidence for it, down to each pair.
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { EPath } from "../../charts/e_path";
import { Picture } from "../../charts/picture";
import { Interval } from "../../charts/interval";
import { download, toCsv } from "../../lib/export";
import { counted, line, number, score, short, signed } from "../../lib/format";
import { ends } from "../../lib/interval";
import { pathOf } from "../../lib/paths";
import { Behind, Command, Copy, Facts, Figure, Page, Problem, State, waiting } from "../../ui/basics";
import { FrozenSets } from "./frozen_sets";
import { Changes } from "../runs/changes";
import { Harmed } from "../cycles/harmed";
import { Outputs } from "./outputs";
import { IS, Tally, tallyOf } from "./tally";
import { type Check, type Evidence, gainOf, readEvidence, recompute } from "./recompute";

export function ExperimentPage() {
  const { id } = useParams({ from: "/experiments/$id" });
  const experiment = useQuery({ queryKey: ["experiments", id], queryFn: () => api.GET("/v1/experiments/{id}", { params: { path: { id } } }) });
  const data = experiment.data;
  const evidence = useEvidence(id, data?.decision != null);
  const found = evidence.data === undefined ? undefined : evidenceOf(evidence.data);
  return (
    <Page
      title={found ? tallyOf(found) : data ? (data.decision ? "Experiment" : "Experiment under way") : "Experiment"}
      above={
        <>
          <Link to="/experiments">Experiments</Link> · candidate {short(data?.candidate_id ?? "")} against {data ? short(data.baseline_id) : "the baseline"}
        </>
      }
      actions={<Command text={`ratchet explain ${short(id)}`} />}
    >
      {waiting(experiment)}
      {data && <Shown experiment={data} evidence={found} />}
    </Page>
  );
}

function Shown({ experiment, evidence }: { experiment: Schemas["Experiment"]; evidence: Evidence | undefined }) {
  const decision = experiment.decision;
  const cycles = useQuery({ queryKey: ["cycles"], queryFn: () => api.GET("/v1/cycles", { params: { query: { limit: 100 } } }) });
  const cycle = cycles.data?.cycles.find((each) => each.experiment_id === experiment.id);
  return (
    <>
      {evidence && <Tally of={evidence} />}
      <div className="row" style={{ margin: "0 0 8px" }}>
        {decision ? <State of={decision.verdict} /> : <State of="running" />}
        {decision && (
          <span>
            {line(decision.metric, 60)} <b>{score(decision.baseline)}</b> → <b>{score(decision.candidate)}</b>
          </span>
        )}
        <Link to={pathOf("run", experiment.run_id)}>its run</Link>
        {cycle && <Link to={pathOf("cycle", cycle.id)}>its cycle</Link>}
      </div>
      <p>{decision?.sentence || "It has not decided yet."}</p>
      {cycle && <Harmed decisions={cycle.decisions} />}
      {evidence && <Outputs evidence={evidence} experiment={experiment} />}
      {decision && decision.frozen.length > 0 && <FrozenSets of={decision.frozen} />}
      <h2>What changed</h2>
      <Changes candidate={experiment.candidate_id} since={experiment.baseline_id} />
      {decision && <HowWeKnow experiment={experiment} decision={decision} />}
    </>
  );
}

/** The evidence, folded: it is read by whoever doubts the verdict, and opened by links to its parts. */
function HowWeKnow({ experiment, decision }: { experiment: Schemas["Experiment"]; decision: Schemas["Decision"] }) {
  const pairs = { to: pathOf("experiment", experiment.id), hash: "pairs" };
  const { pairs: which, metric } = useSearch({ from: "/experiments/$id" });
  const hash = useLocation({ select: (location) => location.hash });
  const asked = hash === "pairs" || hash === "evidence" || which !== undefined || metric !== undefined;
  const [open, setOpen] = useState(asked);
  useEffect(() => {
    if (asked) setOpen(true);
  }, [asked]);
  const explanation = useQuery({
    queryKey: ["experiments", experiment.id, "explanation"],
    queryFn: () => api.GET("/v1/experiments/{id}/explanation", { params: { path: { id: experiment.id } } }),
  });
  return (
    <details className="fold" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>How we know</summary>
      {open && (
        <div className="folded">
          <h2>The gain</h2>
          <div className="figures">
            <Figure label={`baseline, ${decision.metric}`} behind={pairs}>{score(decision.baseline)}</Figure>
            <Figure label="candidate" behind={pairs}>{score(decision.candidate)}</Figure>
            <Figure label={`gain, with its ${number(100 * (1 - decision.alpha), 3)} % interval`} behind={pairs}>
              {signed(decision.candidate - decision.baseline)} <span className="small muted">{ends(decision.interval)}</span>
            </Figure>
            <Figure label={`e-value, threshold ${number(1 / decision.alpha)}`} title="Evidence against “no better than the baseline”" behind={{ ...pairs, hash: "evidence" }}>
              {number(decision.e_value)}
            </Figure>
            <Figure label={decision.repetitions > 1 ? `pairs, each run ${decision.repetitions} times` : "pairs"} behind={pairs}>{number(decision.pairs)}</Figure>
          </div>
          <Picture name={`experiment-${short(experiment.id)}-gain`}>
            <Interval label="Gain" point={decision.candidate - decision.baseline} interval={decision.interval as [number, number]} />
          </Picture>
          {explanation.data && explanation.data.sentences.length > 0 && (
            <>
              <h2>Why, and what would change it</h2>
              {explanation.data.sentences.map((sentence, at) => (
                <p key={at}>{sentence}</p>
              ))}
            </>
          )}
          {decision.guardrails.length > 0 && <Guardrails of={decision.guardrails} alpha={decision.alpha} id={experiment.id} />}
          {decision.labelled && (
            <>
              <h2>People’s labels</h2>
              <Facts
                of={[
                  ["labelled pairs", <Behind key="labelled" where={{ ...pairs, search: { pairs: "labelled" } }}>{`${decision.labelled.labelled} of ${decision.labelled.wanted}`}</Behind>],
                  ["confirmed", decision.labelled.confirmed ? "yes" : "no"],
                  ["gain in labels", decision.labelled.gain != null && signed(decision.labelled.gain)],
                  ["the judge exceeds it by", decision.labelled.judge_bias != null && signed(decision.labelled.judge_bias)],
                ]}
              />
            </>
          )}
          <EvidenceOf experiment={experiment} />
        </div>
      )}
    </details>
  );
}

/** How much worse a metric may get: as a share of the baseline, or in its own unit. */
function marginOf({ metric, margin, unit }: Schemas["GuardrailResult"], file: string | undefined): string {
  const plan = file === undefined ? undefined : planOf(file)?.guardrails.find((each) => each.metric === metric);
  if (plan?.aggregate === "relative") return `${number(100 * margin)} %`;
  return `${number(margin)} ${unit}`.trim();
}

const planOf = (file: string): Evidence["plan"] | undefined => evidenceOf(file)?.plan;

function evidenceOf(file: string): Evidence | undefined {
  try {
    return readEvidence(file);
  } catch {
    return undefined; // where the evidence is shown, the page says what is wrong with the file
  }
}

function Guardrails({ of, alpha, id }: { of: Schemas["GuardrailResult"][]; alpha: number; id: string }) {
  const file = useEvidence(id);
  const pairsOf = (metric: string) => ({ to: pathOf("experiment", id), search: { metric }, hash: "pairs" });
  return (
    <>
      <h2>Guardrails</h2>
      <div className="scroll" tabIndex={0}>
        <table aria-label="Guardrails">
          <thead>
            <tr>
              <th>metric</th>
              <th>result</th>
              <th className="num">baseline</th>
              <th className="num">candidate</th>
              <th className="num">may worsen by</th>
              <th className="num">e-value (needs {number(1 / alpha)})</th>
            </tr>
          </thead>
          <tbody>
            {of.map((guardrail) => (
              <tr key={guardrail.metric}>
                <td>{guardrail.metric}</td>
                <td>
                  {guardrail.baseline == null ? <State of="not measured" tone="warn" /> : guardrail.passed ? <State of="holds" tone="good" /> : <State of="not proved" tone="warn" />}
                </td>
                <td className="num">
                  <Behind where={pairsOf(guardrail.metric)}>{number(guardrail.baseline)}</Behind> {guardrail.unit}
                </td>
                <td className="num">
                  <Behind where={pairsOf(guardrail.metric)}>{number(guardrail.candidate)}</Behind> {guardrail.unit}
                </td>
                <td className="num">{marginOf(guardrail, file.data)}</td>
                <td className="num">{number(guardrail.e_value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** The evidence file, byte by byte; it never changes. */
function useEvidence(id: string, enabled = true) {
  return useQuery({ enabled, queryKey: ["evidence", id], refetchInterval: false, staleTime: Infinity, queryFn: () => api.text("/v1/experiments/{id}/evidence", { params: { path: { id } } }) });
}

function EvidenceOf({ experiment }: { experiment: Schemas["Experiment"] }) {
  const file = useEvidence(experiment.id);
  if (file.error) return <Problem error={file.error} />;
  if (file.data === undefined) return waiting(file);
  let evidence: Evidence;
  try {
    evidence = readEvidence(file.data as string);
  } catch (error) {
    return <Problem error={error} />;
  }
  return (
    <>
      <h2 id="evidence">The path of the evidence</h2>
      <Picture name={`experiment-${short(experiment.id)}-evidence`}>
        <EPath
          unit="pairs"
          threshold={1 / evidence.plan.alpha}
          curves={[
            { label: "better than the baseline", colour: "var(--blue)", values: evidence.pairs.map((pair) => pair.e_values.superiority) },
            { label: "worse than the baseline", colour: "var(--orange)", dash: "5 3", values: evidence.pairs.map((pair) => pair.e_values.harm) },
            { label: "gain below the smallest that matters", colour: "var(--purple)", dash: "2 3", values: evidence.pairs.map((pair) => pair.e_values.futility) },
          ]}
        />
      </Picture>
      <Recomputed text={file.data as string} />
      <Pairs evidence={evidence} experiment={experiment} />
    </>
  );
}

function Recomputed({ text }: { text: string }) {
  const [checks, setChecks] = useState<Check[]>();
  const [error, setError] = useState<unknown>(null);
  return (
    <section aria-label="Recomputation">
      <div className="row" style={{ margin: "8px 0" }}>
        <button type="button" onClick={() => void recompute(text).then(setChecks, setError)}>
          Recompute in this browser
        </button>
        <Copy text={text} label="Copy the evidence file" />
        <span className="muted small">from the evidence file alone; the server computes nothing</span>
      </div>
      {error != null && <Problem error={error} />}
      {checks && (
        <table style={{ maxWidth: 760 }} aria-label="Checks">
          <tbody>
            {checks.map((check) => (
              <tr key={check.what}>
                <td>{check.holds == null ? <State of="not checked" tone="warn" /> : check.holds ? <State of="holds" tone="good" /> : <State of="differs" tone="bad" />}</td>
                <td>{check.what}</td>
                <td className="muted wrap">{check.why}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** The difference of a pair without a score: what it counts as, or that it was skipped. */
const missingText = (gain: number | null) => (gain === null ? "no score: skipped" : `no score: counts as ${signed(gain)}`);

type Order = "pair" | "loss" | "gain";
type Pair = Evidence["pairs"][number];

/** The pairs that decided: all, those with an outcome, those that people labelled; and one more metric of each. */
function Pairs({ evidence, experiment }: { evidence: Evidence; experiment: Schemas["Experiment"] }) {
  const { id } = experiment;
  const { pairs: which, metric } = useSearch({ from: "/experiments/$id" });
  const navigate = useNavigate({ from: "/experiments/$id" });
  const [order, setOrder] = useState<Order>("pair");
  const [all, setAll] = useState(false);
  const gain = (pair: Pair) => gainOf(evidence, pair) ?? 0;
  const pairs = [...evidence.pairs].sort((one, other) => (order === "pair" ? one.pair - other.pair : order === "gain" ? gain(other) - gain(one) : gain(one) - gain(other)));
  const is = IS(evidence);
  const chosen = which && which in is ? pairs.filter(is[which as keyof typeof is]) : pairs;
  const ran = (pair: Pair, side: 0 | 1, value: string) => {
    const first = pair.rollouts?.[side];
    const candidate = side ? experiment.candidate_id : experiment.baseline_id;
    const several = (pair.repetitions?.length ?? 0) > 1;
    return <Behind where={first === undefined ? undefined : several ? { to: "/rollouts", search: { queue: experiment.run_id, purpose: "prove/", candidate, task: pair.task } } : { to: pathOf("rollout", first) }}>{value}</Behind>;
  };
  const shown = all ? chosen : chosen.slice(0, 30);
  const metrics = evidence.plan.guardrails.map((each) => each.metric);
  const set = (changed: { pairs?: string; metric?: string }) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  const only = (each: keyof typeof is) => (
    <Behind where={{ to: pathOf("experiment", id), search: { metric, pairs: each }, hash: "pairs" }}>
      {evidence.pairs.filter(is[each]).length} {each}
    </Behind>
  );
  return (
    <>
      <div className="row">
        <h2 id="pairs">Pairs</h2>
        <span className="muted">
          {only("won")}, {only("lost")}, {only("level")}
          {evidence.pairs.some((pair) => pair.missing) && <>, {only("without a score")}</>}
        </span>
        <label>
          Show
          <select value={which ?? ""} onChange={(event) => set({ pairs: event.target.value || undefined })}>
            <option value="">all</option>
            {Object.keys(is).map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        {metrics.length > 0 && (
          <label>
            and its
            <select value={metric ?? ""} onChange={(event) => set({ metric: event.target.value || undefined })}>
              <option value="">nothing more</option>
              {metrics.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        )}
        <label>
          Order
          <select value={order} onChange={(event) => setOrder(event.target.value as Order)}>
            <option value="pair">as they came</option>
            <option value="loss">losses first</option>
            <option value="gain">gains first</option>
          </select>
        </label>
        <button
          type="button"
          onClick={() =>
            download(
              `experiment-${short(id)}.csv`,
              "text/csv",
              toCsv(
                ["pair", "task", "baseline", "candidate", "e_value"],
                evidence.pairs.map((pair) => [pair.pair, pair.task, pair.baseline, pair.candidate, pair.e_values.superiority]),
              ),
            )
          }
        >
          CSV
        </button>
      </div>
      <div className="scroll" tabIndex={0}>
        <table aria-label="Pairs">
          <thead>
            <tr>
              <th className="num">pair</th>
              <th>task</th>
              <th className="num">baseline</th>
              <th className="num">candidate</th>
              <th className="num">difference</th>
              {metric && <th className="num">{metric}, baseline</th>}
              {metric && <th className="num">{metric}, candidate</th>}
              <th className="num">e-value after it</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((pair) => (
              <tr key={pair.pair}>
                <td className="num">{pair.pair}</td>
                <td className="wrap">{line(pair.task, 80)}</td>
                <td className="num">{ran(pair, 0, score(pair.baseline))}</td>
                <td className="num">{ran(pair, 1, score(pair.candidate))}</td>
                <td className="num">{pair.missing ? missingText(gainOf(evidence, pair)) : signed(gain(pair))}</td>
                {metric && <td className="num">{number(pair.metrics[metric]?.[0])}</td>}
                {metric && <td className="num">{number(pair.metrics[metric]?.[1])}</td>}
                <td className="num">{number(pair.e_values.superiority)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length < chosen.length && (
        <button type="button" onClick={() => setAll(true)}>
          All {counted(chosen.length, "pair")}
        </button>
      )}
    </>
  );
}
