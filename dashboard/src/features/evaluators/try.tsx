// Try an evaluator on one stored output: its score and reason are shown, and stored nowhere.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { dollars, line, number, short } from "../../lib/format";
import { waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { LongText } from "../../ui/long_text";

/** Of the output and the evaluator, what the page does not name is asked for. */
export function TryEvaluator({ subject: named, evaluator: only }: { subject?: string; evaluator?: string }) {
  const [chosen, setChosen] = useState("");
  const [subject, setSubject] = useState("");
  const [pays, setPays] = useState(false);
  const [tried, setTried] = useState<{ evaluator: string; said: Schemas["EvaluatorTrial"] }[]>([]);
  const of = named ?? subject.trim();
  const act = async () => {
    const name = only ?? chosen;
    const said = await api.POST("/v1/evaluators/{name}/trial", { params: { path: { name } }, body: { subject: of, may_ask_models: pays } });
    setTried((before) => [{ evaluator: name, said }, ...before]);
  };
  return (
    <div>
      <Ask label={only ? "Try it on an output …" : "Try an evaluator …"} title={only ? `Try ${line(only, 60)} on one output` : "Try an evaluator on this output"} confirm="Score it" needs="develop" disabled={false} act={act}>
        <p>It runs in a process of its own on the server’s machine. The score is shown here; it is not stored and decides nothing, so there is nothing to undo.</p>
        {!named && <Subject value={subject} change={setSubject} />}
        <Choice only={only} chosen={chosen} choose={setChosen} pays={pays} pay={setPays} />
      </Ask>
      {tried.map(({ evaluator, said }, at) => (
        <div key={tried.length - at} className="note" role="status">
          <p>
            {line(evaluator, 60)} {said.score.value == null ? "gives no score" : `would give ${number(said.score.value)}${said.score.unit ? ` ${said.score.unit}` : " of 1"}`} to {short(said.subject)}.
            {said.spent && ` ${said.spent}`} <span className="muted">Not stored.</span>{" "}
            <button type="button" className="plain small" onClick={() => setTried((before) => before.filter((each) => each.said !== said))}>
              clear
            </button>
          </p>
          <LongText text={said.score.error || said.score.rationale || "It gives no reason."} />
        </div>
      ))}
    </div>
  );
}

function Subject({ value, change }: { value: string; change: (value: string) => void }) {
  const newest = useQuery({ queryKey: ["rollouts", "to-try"], refetchInterval: false, queryFn: () => api.GET("/v1/rollouts", { params: { query: { status: "succeeded", limit: 50 } } }) });
  return (
    <label>
      Rollout or trace
      <input type="text" list="outputs-offered" value={value} placeholder="id" onChange={(event) => change(event.target.value)} />
      <datalist id="outputs-offered">
        {newest.data?.rollouts.map((each) => (
          <option key={each.id} value={each.id}>
            {`${line(each.task_id, 40)}: ${line(String(each.output), 60)}`}
          </option>
        ))}
      </datalist>
    </label>
  );
}

interface Choosing {
  only?: string;
  chosen: string;
  choose: (name: string) => void;
  pays: boolean;
  pay: (pays: boolean) => void;
}

function Choice({ only, chosen, choose, pays, pay }: Choosing) {
  const list = useQuery({ queryKey: ["evaluators"], queryFn: () => api.GET("/v1/evaluators"), refetchInterval: false, staleTime: 60_000 });
  if (list.isPending) return <p className="muted" role="status">The project’s evaluators are being loaded …</p>;
  if (!list.data) return <>{waiting(list)}</>;
  const evaluators = list.data.evaluators;
  const found = evaluators.find((each) => each.evaluator === (only ?? chosen));
  return (
    <>
      {!only && (
        <label>
          Evaluator
          <select value={chosen} onChange={(event) => choose(event.target.value)}>
            <option value="">choose one</option>
            {evaluators.map((each) => (
              <option key={each.evaluator} value={each.evaluator}>
                {each.evaluator}
                {each.unit && ` (${each.unit})`}
              </option>
            ))}
          </select>
        </label>
      )}
      {only && !found && <p className="note bad">The project on the server’s machine has no evaluator {line(only, 60)} any more.</p>}
      {found && found.models.length > 0 && (
        <>
          <p className="note">
            It asks {found.models.join(", ")}, which may cost money
            {found.card?.cost_usd != null ? `: about ${dollars(found.card.cost_usd)} a score, by its report card.` : "; how much is not known before its report card is made."}
          </p>
          <label>
            <input type="checkbox" checked={pays} onChange={(event) => pay(event.target.checked)} /> Ask it
          </label>
        </>
      )}
    </>
  );
}
