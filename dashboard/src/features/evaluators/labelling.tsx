// The labelling queue: one output at a time, right or wrong, by keyboard; every label can be undone.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { line, number, text } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, Problem, waiting } from "../../ui/basics";
import { LongText } from "../../ui/long_text";
import { newId } from "../../lib/id";

export function LabellingPage() {
  const queries = useQueryClient();
  const rollouts = useQuery({ queryKey: ["rollouts", "to-label"], refetchInterval: false, staleTime: Infinity, queryFn: () => api.GET("/v1/rollouts", { params: { query: { status: "succeeded", limit: 500 } } }) });
  const labels = useQuery({ queryKey: ["labels", "all"], refetchInterval: false, staleTime: Infinity, queryFn: () => api.GET("/v1/labels", { params: { query: {} } }) });
  const [given, setGiven] = useState<{ id: string; rollout: string; value: number }[]>([]);
  const [skipped, setSkipped] = useState<string[]>([]);
  const [error, setError] = useState<unknown>(null);
  const queue = useMemo(() => {
    const known = new Set(labels.data?.labels.map((label) => label.rollout_id));
    return shuffled((rollouts.data?.rollouts ?? []).filter((rollout) => !known.has(rollout.id)));
  }, [rollouts.data, labels.data]);
  const done = new Set([...given.map((each) => each.rollout), ...skipped]);
  const current = queue.find((rollout) => !done.has(rollout.id));
  const give = async (value: number) => {
    if (!current) return;
    const id = newId();
    setGiven((before) => [...before, { id, rollout: current.id, value }]);
    setError(null);
    try {
      await api.POST("/v1/labels", { body: { labels: [{ id, rollout_id: current.id, value, drawn: "chosen" }] } });
    } catch (failure) {
      setGiven((before) => before.filter((each) => each.id !== id));
      setError(failure);
    }
  };
  const undo = async () => {
    const last = given.at(-1);
    if (!last) return;
    await api.DELETE("/v1/labels/{id}", { params: { path: { id: last.id } } });
    setGiven((before) => before.filter((each) => each.id !== last.id));
    void queries.invalidateQueries({ queryKey: ["labels", last.rollout] });
  };
  useKeys({
    "1": () => void give(1),
    r: () => void give(1),
    "0": () => void give(0),
    w: () => void give(0),
    s: () => current && setSkipped((before) => [...before, current.id]),
    u: () => void undo(),
  });
  return (
    <Page title="Labelling" actions={<Command text="ratchet label" />}>
      {waiting(rollouts)}
      <div className="row">
        <span className="muted">
          {number(given.length)} labelled, {number(queue.length - done.size)} left; <Link to="/labels">all labels</Link>
        </span>
        <button type="button" disabled={given.length === 0} onClick={() => void undo()}>
          Undo <kbd>U</kbd>
        </button>
      </div>
      {error != null && <Problem error={error} />}
      {rollouts.data?.rollouts.length === 0 && <Empty command="ratchet eval">No output has been made that could be labelled. Run the agent on its tasks:</Empty>}
      {rollouts.data && rollouts.data.rollouts.length > 0 && labels.data && !current && <Empty command="ratchet label">No output waits for a label. Labels of drawn pairs, which a decision may rest on, are given with:</Empty>}
      {current && <One key={current.id} rollout={current} />}
      {current && (
        <div className="row" style={{ position: "sticky", bottom: 0, background: "var(--bg)", padding: "10px 0" }}>
          <button type="button" className="primary" onClick={() => void give(1)}>
            Right <kbd>R</kbd>
          </button>
          <button type="button" className="danger" onClick={() => void give(0)}>
            Wrong <kbd>W</kbd>
          </button>
          <button type="button" onClick={() => setSkipped((before) => [...before, current.id])}>
            Skip <kbd>S</kbd>
          </button>
        </div>
      )}
    </Page>
  );
}

function One({ rollout }: { rollout: Schemas["Rollout"] }) {
  return (
    <article>
      <p className="muted">
        task {line(rollout.task_id, 60)}, <Link to={pathOf("rollout", rollout.id)}>its rollout</Link>
      </p>
      <h2>Input</h2>
      <LongText text={text(rollout.input)} />
      {rollout.expected != null && (
        <>
          <h2>Expected</h2>
          <LongText text={text(rollout.expected)} />
        </>
      )}
      <h2>Output</h2>
      <LongText text={text(rollout.output)} />
    </article>
  );
}

/** In an order that tells nothing: neither time nor candidate. */
function shuffled<T>(items: T[]): T[] {
  const result = [...items];
  for (let at = result.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [result[at], result[other]] = [result[other]!, result[at]!];
  }
  return result;
}
