// The labelling queue: one output at a time, in the order and with the keys of `ratchet label`; every label can be undone.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api } from "../../api/client";
import { counted, line, number, quoted, short, text } from "../../lib/format";
import { newId } from "../../lib/id";
import { useKeys } from "../../lib/keys";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Loading, Page, Problem, waiting } from "../../ui/basics";
import { LongText } from "../../ui/long_text";
import { useSession } from "../../ui/session";
import { toast } from "../../ui/toast";
import { DialogueView } from "../traces/dialogue_view";
import { useSkeleton } from "../traces/skeleton";

interface Given {
  id: string;
  subject: string;
  value: number;
}

/** Steps between wrong and right. */
const GRADES = [0, 1, 2, 3, 4, 5];

export function LabellingPage() {
  const { of, criterion = "" } = useSearch({ from: "/labelling" });
  const navigate = useNavigate({ from: "/labelling" });
  const queries = useQueryClient();
  const session = useSession();
  const labeller = session.data?.key_name || "dashboard";
  const live = of === "traces";
  const once = { refetchInterval: false as const, staleTime: Infinity };
  const rollouts = useQuery({ ...once, enabled: !live, queryKey: ["labelling", labeller, criterion], queryFn: () => api.GET("/v1/labelling", { params: { query: { labeller, criterion } } }) });
  const traces = useQuery({ ...once, enabled: live, queryKey: ["labelling", "traces"], queryFn: () => api.GET("/v1/traces", { params: { query: { limit: 500 } } }) });
  const labels = useQuery({ ...once, queryKey: ["labels", "by", labeller, criterion], queryFn: () => api.GET("/v1/labels", { params: { query: { criterion } } }) });
  const [given, setGiven] = useState<Given[]>([]);
  const [skipped, setSkipped] = useState<string[]>([]);
  const [error, setError] = useState<unknown>(null);
  const queue = useMemo(() => {
    if (!live) return rollouts.data?.rollout_ids ?? [];
    const known = new Set(labels.data?.labels.filter((label) => label.labeller === labeller).map((label) => label.trace_id));
    const left = (traces.data?.traces ?? []).filter((trace) => !known.has(trace.trace_id));
    // Those with bad feedback or a failed step first, else the newest, as in the terminal.
    const bad = (trace: (typeof left)[number]) => trace.errors > 0 || (trace.worst != null && trace.worst < 0.5);
    return [...left.filter(bad), ...left.filter((trace) => !bad(trace))].map((trace) => trace.trace_id);
  }, [live, rollouts.data, traces.data, labels.data, labeller]);
  const done = new Set([...given.map((each) => each.subject), ...skipped]);
  const current = queue.find((subject) => !done.has(subject));
  const seen = queue.filter((subject) => done.has(subject)).length;
  const give = async (value: number) => {
    if (!current) return;
    const id = newId();
    setGiven((before) => [...before, { id, subject: current, value }]);
    setError(null);
    try {
      await api.POST("/v1/labels", { body: { labels: [{ id, ...(live ? { trace_id: current } : { rollout_id: current }), value, criterion, labeller, drawn: "chosen" }] } });
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
    toast("The last label is taken back.");
    void queries.invalidateQueries({ queryKey: ["labels"] });
  };
  const pass = () => current && setSkipped((before) => [...before, current]);
  useKeys({
    y: () => void give(1),
    n: () => void give(0),
    s: () => void pass(),
    u: () => void undo(),
    ...Object.fromEntries(GRADES.map((grade) => [String(grade), () => void give(grade / 5)])),
  });
  const source = live ? traces : rollouts;
  const set = (changed: { of?: string; criterion?: string }) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  return (
    <Page title="Labelling" actions={<Command text={`ratchet label${live ? " --traces" : ""}${criterion ? ` --criterion ${quoted(criterion)}` : ""}`} />}>
      <div className="row" style={{ marginBottom: 12 }}>
        <nav className="switch" aria-label="What is labelled">
          <Link to="/labelling" search={{ criterion: criterion || undefined }} aria-current={live ? undefined : "true"}>
            Rollouts
          </Link>
          <Link to="/labelling" search={{ of: "traces", criterion: criterion || undefined }} aria-current={live ? "true" : undefined}>
            Live traffic
          </Link>
        </nav>
        <label className="grow">
          Criterion
          <input type="text" className="grow" maxLength={200} defaultValue={criterion} placeholder="the output as a whole" onBlur={(event) => set({ criterion: event.target.value.trim() || undefined })} onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()} />
        </label>
        <Link to="/labels">all labels</Link>
      </div>
      {waiting(source)}
      {source.data && queue.length > 0 && (
        <div className="row" style={{ marginBottom: 12 }}>
          <progress value={seen} max={queue.length} aria-label="Progress" />
          <span className="muted">
            {number(given.length)} labelled, {number(queue.length - seen)} left
          </span>
          <button type="button" disabled={given.length === 0} onClick={() => void undo()}>
            Undo <kbd>U</kbd>
          </button>
        </div>
      )}
      {error != null && <Problem error={error} />}
      {source.data && !current && (
        <Empty command={queue.length ? "ratchet evaluators check" : live ? "ratchet init" : "ratchet eval"}>
          {queue.length ? `You have seen all ${counted(queue.length, "output")}. What the labels say of the evaluators:` : live ? "No live trace is without your label. Wire the agent, so that it sends some:" : "No output has been made that could be labelled. Run the agent on its tasks:"}
        </Empty>
      )}
      {current && (live ? <TraceToLabel key={current} id={current} /> : <RolloutToLabel key={current} id={current} />)}
      {current && (
        <div className="row" style={{ position: "sticky", bottom: 0, background: "var(--ground)", padding: "12px 0" }}>
          <b>{criterion || "Is the output right?"}</b>
          <button type="button" className="primary" onClick={() => void give(1)}>
            Right <kbd>Y</kbd>
          </button>
          <button type="button" className="danger" onClick={() => void give(0)}>
            Wrong <kbd>N</kbd>
          </button>
          <button type="button" onClick={pass}>
            Skip <kbd>S</kbd>
          </button>
          <span className="muted small">
            <kbd>0</kbd> wrong to <kbd>5</kbd> right, for what is in between
          </span>
        </div>
      )}
    </Page>
  );
}

function RolloutToLabel({ id }: { id: string }) {
  const found = useQuery({ queryKey: ["rollouts", id], refetchInterval: false, queryFn: () => api.GET("/v1/rollouts/{id}", { params: { path: { id } } }) });
  const rollout = found.data;
  return (
    <article className="box">
      {waiting(found)}
      {rollout && (
        <>
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
        </>
      )}
    </article>
  );
}

function TraceToLabel({ id }: { id: string }) {
  const skeleton = useSkeleton(id);
  return (
    <article className="box">
      <p className="muted">
        live trace {short(id)}, <Link to={pathOf("trace", id)}>its steps</Link>
      </p>
      {skeleton.data ? <DialogueView trace={id} spans={skeleton.data.spans} /> : skeleton.error ? <Problem error={skeleton.error} /> : <Loading />}
    </article>
  );
}
