// What changes a dataset: an edited task, and what the results of candidates propose. Each makes a new
// version; the one before is the latest again with one press.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { counted, line, number, short, text } from "../../lib/format";
import { newId } from "../../lib/id";
import { pathOf } from "../../lib/paths";
import { Behind, Figure, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { asEdited, fromEdited } from "./edited";
import { republish } from "./versions";

type Dataset = Schemas["DatasetView"];
type Split = NonNullable<Schemas["DatasetChanges"]["split"]>;
const SPLITS: Split[] = ["train", "val", "test"];

/** Send changes, go to the version that they made, and hand back how to undo them. */
export function useChanges(dataset: Dataset) {
  const queries = useQueryClient();
  const navigate = useNavigate({ from: "/datasets/$name" });
  const reload = async () => {
    await navigate({ search: (before) => ({ ...before, version: undefined, against: undefined }), replace: true });
    await queries.invalidateQueries({ queryKey: ["datasets"] });
  };
  return {
    change: async (changes: Partial<Pick<Schemas["DatasetChanges"], "accept" | "remove" | "split">> & { edit?: Schemas["EditedTask"][]; add?: Schemas["Task"][] }) => {
      const made = await api.POST("/v1/datasets/{name}/changes", { params: { path: { name: dataset.name } }, body: { version: dataset.version, ...changes } });
      await reload();
      return made;
    },
    undo: async (version: string) => {
      await republish(version);
      await reload();
    },
  };
}

/** Says what the last change was, until it is undone. */
export function Changed({ made, undo }: { made: Schemas["DatasetChanged"] | undefined; undo: () => void }) {
  if (!made) return null;
  return (
    <p className="note row" role="status">
      <span>{made.reason}</span>
      {made.before !== made.version && (
        <button type="button" className="plain" onClick={undo}>
          undo
        </button>
      )}
    </p>
  );
}

export function EditTask({ task, change }: { task: Schemas["Task"]; change: (edit: Schemas["EditedTask"]) => Promise<unknown> }) {
  const [input, setInput] = useState(asEdited(task.input));
  const [expected, setExpected] = useState(asEdited(task.expected));
  const save = async () =>
    change({ id: task.id, input: fromEdited("The input", input, task.input), expected: fromEdited("The expected answer", expected, task.expected), metadata: task.metadata });
  return (
    <Ask label="Edit …" title={`Edit the task ${line(task.id, 60)}`} confirm="Save as a new version" needs="develop" done="The task is saved, in a new version." act={save}>
      <p>The dataset gets a new version with this task changed. Its split stays. The version before is kept.</p>
      <label className="stack" style={{ alignItems: "stretch" }}>
        Input
        <textarea rows={6} spellCheck={false} value={input} onChange={(event) => setInput(event.target.value)} />
      </label>
      <label className="stack" style={{ alignItems: "stretch" }}>
        Expected
        <textarea rows={4} spellCheck={false} value={expected} onChange={(event) => setExpected(event.target.value)} />
      </label>
    </Ask>
  );
}

/** Adds a task that a person writes; a value that is JSON is taken as JSON, anything else as a text. */
export function AddTask({ add }: { add: (task: Schemas["Task"], split: Split) => Promise<unknown> }) {
  const [input, setInput] = useState("");
  const [expected, setExpected] = useState("");
  const [split, setSplit] = useState<Split>("train");
  const save = async () => {
    const values = { input: fromEdited("The input", input, null), expected: fromEdited("The expected answer", expected, null) };
    await add({ id: `task-${newId().slice(0, 12)}`, ...values, metadata: {}, origin: { made: "curated", sources: [], by: "", at: 0 } }, split);
    setInput("");
    setExpected("");
  };
  return (
    <Ask label="Add a task …" title="Add a task" confirm="Save as a new version" needs="develop" ready={input.trim() !== ""} done="The task is added, in a new version." act={save}>
      <p>The dataset gets a new version with this task. The version before is kept.</p>
      <label className="stack" style={{ alignItems: "stretch" }}>
        Input, a text or JSON
        <textarea rows={6} spellCheck={false} value={input} onChange={(event) => setInput(event.target.value)} />
      </label>
      <label className="stack" style={{ alignItems: "stretch" }}>
        Expected, where there is one right answer
        <textarea rows={4} spellCheck={false} value={expected} onChange={(event) => setExpected(event.target.value)} />
      </label>
      <label>
        Split
        <select value={split} onChange={(event) => setSplit(event.target.value as Split)}>
          {SPLITS.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
    </Ask>
  );
}

/** What the results of candidates say about a dataset's latest version. */
export function useRefinement(dataset: Dataset, wanted: boolean) {
  return useQuery({
    queryKey: ["datasets", dataset.name, "refinement", dataset.version],
    enabled: wanted,
    refetchInterval: false,
    queryFn: () => api.GET("/v1/datasets/{name}/refinement", { params: { path: { name: dataset.name } } }),
  });
}

/** A kind of live inputs, as it stands in an address. */
export const kindOf = (cluster: Schemas["LiveCluster"]): string => cluster.words.join(" ");

export function Refinement({ dataset, change, open }: { dataset: Dataset; change: (changes: { accept?: string[] }) => Promise<unknown>; open: (task: string) => void }) {
  const [wanted, setWanted] = useState(false);
  const found = useRefinement(dataset, wanted);
  return (
    <details onToggle={(event) => setWanted(event.currentTarget.open)}>
      <summary>What the results of candidates say about it: likely wrong labels, duplicates, coverage</summary>
      {wanted && waiting(found)}
      {found.data && (
        <>
          {found.data.notes.map((note) => (
            <p key={note} className="note">
              {note}
            </p>
          ))}
          {found.data.proposals.length === 0 && <p>Nothing to change.</p>}
          {found.data.proposals.length > 0 && (
            <div className="scroll" tabIndex={0}>
              <table aria-label="Proposals">
                <thead>
                  <tr>
                    <th>proposal</th>
                    <th>tasks</th>
                    <th>why</th>
                    <th className="num">certain</th>
                    <td />
                  </tr>
                </thead>
                <tbody>
                  {found.data.proposals.map((each) => (
                    <tr key={each.id}>
                      <td>
                        {each.kind} <span className="muted">({each.ground})</span>
                      </td>
                      <td>
                        {each.tasks.slice(0, 3).map((task) => (
                          <button key={task} type="button" className="plain" onClick={() => open(task)}>
                            {line(task, 30)}
                          </button>
                        ))}
                        {each.tasks.length > 3 && ` and ${number(each.tasks.length - 3)} more`}
                      </td>
                      <td className="wrap">
                        {each.reason}
                        {each.kind === "relabel" && <> New answer: {line(text(each.expected), 120)}</>}
                      </td>
                      <td className="num">{each.confidence == null ? "" : `${number(Math.round(100 * each.confidence))} %`}</td>
                      <td>
                        {(each.kind === "remove" || each.kind === "relabel") && (
                          <Ask label="Accept …" title="Accept this proposal?" confirm="Accept" needs="develop" act={() => change({ accept: [each.id] })}>
                            <p>
                              {counted(each.tasks.length, "task")} {each.kind === "remove" ? "will be removed" : "will get another answer"} in a new version. The version before is kept.
                            </p>
                          </Ask>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {found.data.coverage && <Coverage of={found.data.coverage} name={dataset.name} />}
          <p className="muted small">
            {counted(found.data.candidates, "candidate")} scored{found.data.evaluator && ` by ${found.data.evaluator}`}, on version {short(found.data.version)}. Test tasks are never changed for their results; a person is asked.
          </p>
        </>
      )}
    </details>
  );
}

function Coverage({ of, name }: { of: NonNullable<Schemas["DatasetRefinement"]["coverage"]>; name: string }) {
  return (
    <>
      <h3>Coverage of live traffic</h3>
      <div className="figures">
        <Figure label="live inputs" behind={{ to: "/traces" }}>{number(of.inputs)}</Figure>
        <Figure label="distance (0 alike, 1 disjoint)">{number(of.distance)}</Figure>
        <Figure label="drift of the traffic">
          {number(of.drift)}, p = {number(of.drift_p)}
        </Figure>
      </div>
      <table aria-label="Kinds of live inputs">
        <thead>
          <tr>
            <th className="num">of traffic</th>
            <th className="num">tasks</th>
            <th>words</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {of.clusters.map((cluster) => (
            <tr key={cluster.words.join(" ")}>
              <td className="num">
                <details>
                  <summary>{number(Math.round(100 * cluster.live))} %</summary>
                  {counted(cluster.inputs, "input")}
                  {cluster.traces.length < cluster.inputs && `, the newest ${cluster.traces.length}`}:{" "}
                  {cluster.traces.map((trace) => (
                    <Link key={trace} to={pathOf("trace", trace)}>
                      {trace.slice(-8)}{" "}
                    </Link>
                  ))}
                </details>
              </td>
              <td className="num">
                <Behind where={cluster.tasks > 0 ? { to: pathOf("dataset", name), search: { kind: kindOf(cluster) }, hash: "tasks" } : undefined}>{number(cluster.tasks)}</Behind>
              </td>
              <td className="wrap">{line(cluster.words.join(", "), 120)}</td>
              <td>{cluster.gap && <span className="badge bad">too few</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
