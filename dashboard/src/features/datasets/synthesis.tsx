// More tasks that resemble a dataset's: they are proposed, looked at, and added to a new version.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { counted, dollars, line, number, quoted, text } from "../../lib/format";
import { Command, Problem, waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { useAllowed } from "../../ui/session";

type Dataset = Schemas["DatasetView"];
type Way = Schemas["NewSynthesis"]["methods"][number];
type Split = Schemas["NewSynthesis"]["split"];
const SPLITS: Split[] = ["train", "val", "test"];

export function Synthesis({ dataset, add }: { dataset: Dataset; add: (tasks: Schemas["Task"][], split: Split) => Promise<unknown> }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Make more tasks that resemble these</summary>
      {open && <Propose key={dataset.version} dataset={dataset} add={add} />}
    </details>
  );
}

function Propose({ dataset, add }: { dataset: Dataset; add: (tasks: Schemas["Task"][], split: Split) => Promise<unknown> }) {
  const offered = useQuery({ queryKey: ["synthesis-methods"], refetchInterval: false, queryFn: () => api.GET("/v1/synthesis-methods") });
  const allowed = useAllowed("develop");
  const [methods, setMethods] = useState<Way[]>(["slots", "rewording", "boundary"]);
  const [count, setCount] = useState(20);
  const [split, setSplit] = useState<Split>("train");
  const [open, setOpen] = useState(false);
  const [pays, setPays] = useState(false);
  const [seed, setSeed] = useState(0);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [found, setFound] = useState<{ tasks: Schemas["ProposedTasks"]; split: Split }>();
  const asked = offered.data?.methods.filter((each) => methods.includes(each.name as Way)).flatMap((each) => each.models) ?? [];
  const propose = async () => {
    setBusy(true);
    setError(null);
    try {
      const tasks = await api.POST("/v1/datasets/{name}/synthesis", {
        params: { path: { name: dataset.name } },
        body: { methods, count, split, seed, keep_open: open, may_ask_models: pays },
      });
      setFound({ tasks, split });
      setSeed(seed + 1);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      {waiting(offered)}
      <fieldset className="ways">
        <legend>How inputs are made</legend>
        {offered.data?.methods.map((each) => (
          <label key={each.name}>
            <input
              type="checkbox"
              checked={methods.includes(each.name as Way)}
              onChange={(event) => setMethods(event.target.checked ? [...methods, each.name as Way] : methods.filter((name) => name !== each.name))}
            />
            <span>
              {each.name} <span className="muted">{each.what}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {offered.data && !offered.data.methods.some((each) => each.name === "coach") && <p className="muted small">A model writes inputs too where [coach] in the project’s ratchet.toml names one.</p>}
      {asked.length > 0 && (
        <label className="note">
          <input type="checkbox" checked={pays} onChange={(event) => setPays(event.target.checked)} /> Ask {asked.join(", ")}, which may cost money; at most 100 calls.
        </label>
      )}
      <div className="row">
        <label>
          Tasks
          <input type="number" min={1} max={200} value={count} onChange={(event) => setCount(Math.max(1, Math.min(200, Number(event.target.value) || 1)))} />
        </label>
        <label>
          made of and added to
          <select aria-label="Split of the new tasks" value={split} onChange={(event) => setSplit(event.target.value as Split)}>
            {SPLITS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={open} onChange={(event) => setOpen(event.target.checked)} /> also without an answer
        </label>
        <button type="button" disabled={busy || !allowed || methods.length === 0 || (asked.length > 0 && !pays)} title={allowed ? undefined : "Needs a key with the scope run"} onClick={() => void propose()}>
          {busy ? "Working …" : found ? "Propose others" : "Propose"}
        </button>
        <Command text={`ratchet datasets synthesize ${quoted(dataset.name)} -n ${count} --split ${split}${methods.map((each) => ` --method ${each}`).join("")}`} />
      </div>
      {error != null && <Problem error={error} />}
      {found && <Proposals key={seed} found={found.tasks} split={found.split} add={(tasks) => add(tasks, found.split)} />}
    </>
  );
}

function Proposals({ found, split, add }: { found: Schemas["ProposedTasks"]; split: Split; add: (tasks: Schemas["Task"][]) => Promise<unknown> }) {
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const kept = found.tasks.filter((task) => !left.has(task.id));
  const dropped = Object.entries(found.dropped).sort((one, other) => other[1] - one[1]);
  return (
    <>
      <p role="status" style={{ marginTop: 8 }}>
        {counted(found.tasks.length, "task")} proposed; none is stored yet. {found.ended} {found.coach_calls > 0 && `${counted(found.coach_calls, "coach call")}, ${dollars(found.cost_usd)}.`}
      </p>
      {dropped.length > 0 && <p className="muted small">Not kept: {dropped.slice(0, 6).map(([why, count]) => `${number(count)} ${why}`).join("; ")}.</p>}
      {found.tasks.length > 0 && (
        <>
          <div className="scroll" tabIndex={0} style={{ maxHeight: "50vh" }}>
            <table aria-label="Proposed tasks">
              <thead>
                <tr>
                  <th>add</th>
                  <th>input</th>
                  <th>expected</th>
                  <th>made by</th>
                </tr>
              </thead>
              <tbody>
                {found.tasks.map((task) => (
                  <tr key={task.id}>
                    <td>
                      <input
                        type="checkbox"
                        aria-label={`Add ${task.id}`}
                        checked={!left.has(task.id)}
                        onChange={(event) => {
                          const after = new Set(left);
                          if (event.target.checked) after.delete(task.id);
                          else after.add(task.id);
                          setLeft(after);
                        }}
                      />
                    </td>
                    <td className="wrap long">{line(text(task.input), 200)}</td>
                    <td className="wrap">{task.expected == null ? <span className="muted">open</span> : line(text(task.expected), 120)}</td>
                    <td className="wrap">{line(task.origin.by, 80)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <div className="row" style={{ marginTop: 8 }}>
            <Ask label={`Add ${counted(kept.length, "task")} …`} title={`Add ${counted(kept.length, "task")} to ${split}?`} confirm="Add as a new version" needs="develop" disabled={kept.length === 0} act={() => add(kept)}>
              <p>
                The dataset gets a new version with them in its {split} split. The version before is kept, and is the latest again with one press.
                {split !== "train" && " A proof on synthesized tasks says little about real ones."}
              </p>
            </Ask>
          </div>
        </>
      )}
    </>
  );
}
