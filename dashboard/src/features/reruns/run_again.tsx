// Run a rollout or a live trace again: a runner claims it, and what comes out is set beside the original.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { address, api } from "../../api/client";
import { dollars, duration, short, text } from "../../lib/format";
import { newId } from "../../lib/id";
import { pathOf } from "../../lib/paths";
import { Command, Problem, State, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { TextDiff } from "../../ui/diff";
import { hasEnded, runnerCommand, standing } from "./outcome";

type Original = { rollout: string } | { trace: string };

/** The button; `show` puts the new rollout's id into the address. */
export function RunAgain({ of, show }: { of: Original; show: (rerun: string) => void }) {
  const [queue, setQueue] = useState("");
  const [id, setId] = useState(newId);
  return (
    <Ask
      label="Run again …"
      title="Run this again?"
      confirm="Queue it"
      needs="develop"
      act={async () => {
        // Sent twice, after an answer that was lost, it is one rollout.
        const made = await api.POST("/v1/reruns", { body: { ...of, id, ...(queue ? { queue } : {}) } });
        setId(newId());
        show(made.rollout_id);
      }}
    >
      <Place of={of} queue={queue} choose={setQueue} />
    </Ask>
  );
}

function Place({ of, queue, choose }: { of: Original; queue: string; choose: (queue: string) => void }) {
  const place = useQuery({ queryKey: ["reruns", "place", of], queryFn: () => api.GET("/v1/reruns/place", { params: { query: of } }), refetchInterval: 5_000 });
  if (!place.data) return <>{waiting(place)}</>;
  if (place.data.problem) return <p className="note bad">{place.data.problem}</p>;
  const own = queue === "" || queue === place.data.queue;
  return (
    <>
      <p>
        A new rollout gets the same input, candidate and seed, and a runner of the queue runs the agent’s code with it. Tools that act are blocked, as in every rollout; the model calls of the agent cost what they cost. The original stays as it is. Until a runner claims it, it can be cancelled.
      </p>
      <label>
        Queue
        <select value={queue || place.data.queue} onChange={(event) => choose(event.target.value)}>
          {[place.data.queue, ...place.data.others].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {own && place.data.runners.length > 0 && <p className="muted">Served by {place.data.runners.join(", ")}.</p>}
      {own && place.data.runners.length === 0 && (
        <>
          <p>No runner of this server serves it: it waits until one does. Start one where the agent’s code is:</p>
          <Command text={runnerCommand(address(), place.data.queue)} />
        </>
      )}
      {!own && <p>Runners of this queue may hold another agent: choose it only if they hold this one.</p>}
    </>
  );
}

/** The rerun that the address names, beside the original. */
export function Rerun({ id, close }: { id: string; close: () => void }) {
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  const found = useQuery({
    queryKey: ["reruns", id],
    queryFn: () => api.GET("/v1/reruns/{id}", { params: { path: { id } } }),
    refetchInterval: (query) => (query.state.data && hasEnded(query.state.data.rerun.status) ? false : 2_000),
  });
  const cancel = async () => {
    try {
      await api.POST("/v1/rollouts/cancel", { body: { ids: [id] } });
      setError(null);
    } catch (failure) {
      setError(failure);
    }
    await queries.invalidateQueries({ queryKey: ["reruns"] });
  };
  const data = found.data;
  const ended = data && hasEnded(data.rerun.status);
  const compared = ended && data.rerun.status !== "cancelled";
  return (
    <section className="box" aria-label="Run again" style={{ marginBottom: 12 }}>
      <div className="row">
        <b>Run again</b>
        {data && <State of={data.rerun.status} />}
        <Link to={pathOf("rollout", id)}>rollout {short(id)}</Link>
        {data && !ended && (
          <button type="button" onClick={() => void cancel()}>
            Cancel it
          </button>
        )}
        <button type="button" className="plain" onClick={close}>
          close
        </button>
      </div>
      {waiting(found)}
      {error != null && <Problem error={error} />}
      {data && <p role="status">{standing(data)}</p>}
      {data?.rerun.status === "queued" && data.runners.length === 0 && <Command text={runnerCommand(address(), data.queue)} />}
      {compared && data.original && (
        <>
          <div className="scroll" tabIndex={0}>
            <table aria-label="The original and the rerun">
              <thead>
                <tr>
                  <td />
                  <th>status</th>
                  <th className="num">took</th>
                  <th className="num">cost</th>
                  <th>trace</th>
                </tr>
              </thead>
              <tbody>
                {([["original", data.original], ["rerun", data.rerun]] as const).map(([name, side]) => (
                  <tr key={name}>
                    <th>{name}</th>
                    <td>
                      <State of={side.status} />
                    </td>
                    <td className="num">{duration(side.duration_s)}</td>
                    <td className="num">{dollars(side.cost_usd, side.known_usd)}</td>
                    <td>{side.trace_id && <Link to={pathOf("trace", side.trace_id)}>{short(side.trace_id)}</Link>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {data.original.trace_id && data.rerun.trace_id && (
            <p>
              <Link to={pathOf("trace", data.original.trace_id)} search={{ with: data.rerun.trace_id }}>
                Both step by step
              </Link>
            </p>
          )}
          <h3>Output, from the original to the rerun</h3>
          <TextDiff by="words" before={shown(data.original)} after={shown(data.rerun)} />
        </>
      )}
    </section>
  );
}

const shown = (side: { output?: unknown; error: string }): string => side.error || text(side.output ?? "");
