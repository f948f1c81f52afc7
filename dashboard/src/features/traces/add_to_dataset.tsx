// Make tasks of traces. The version before stays, and is the latest again with one press.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { counted, line } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Ask } from "../../ui/dialog";
import { republish } from "../datasets/versions";

/** Adds traces to a dataset, and takes it back. */
export function useAddition() {
  const queries = useQueryClient();
  const [done, setDone] = useState<{ name: string; answer: Schemas["TracesAdded"] }>();
  return {
    done,
    add: async (name: string, traces: string[]) => {
      const answer = await api.POST("/v1/datasets/{name}/traces", { params: { path: { name } }, body: { traces } });
      setDone({ name, answer });
      await queries.invalidateQueries({ queryKey: ["datasets"] });
    },
    undo: async () => {
      if (!done) return;
      await republish(done.answer.before);
      setDone(undefined);
      await queries.invalidateQueries({ queryKey: ["datasets"] });
    },
  };
}

/** What became of the traces that were added last. */
export function Added({ addition: { done, undo } }: { addition: ReturnType<typeof useAddition> }) {
  if (!done) return null;
  const leftOut = Object.entries(done.answer.left_out).map(([why, traces]) => `${counted(traces, "trace")} left out: ${why}`);
  return (
    <span className="row" role="status">
      {done.answer.tasks.length > 0 ? (
        <>
          <span>
            {counted(done.answer.tasks.length, "task")} in <Link to={pathOf("dataset", done.name)}>{line(done.name, 40)}</Link>
          </span>
          {leftOut.length > 0 && <span className="muted">{leftOut.join("; ")}</span>}
          {done.answer.before && (
            <button type="button" className="plain" onClick={() => void undo()}>
              undo
            </button>
          )}
        </>
      ) : (
        <span>No task: {Object.keys(done.answer.left_out).join("; ")}.</span>
      )}
    </span>
  );
}

export function AddToDataset({ trace }: { trace: string }) {
  const datasets = useQuery({ queryKey: ["datasets"], queryFn: () => api.GET("/v1/dataset-versions", { params: { query: {} } }) });
  const [name, setName] = useState("");
  const addition = useAddition();
  const chosen = name.trim() || (datasets.data?.datasets[0]?.name ?? "");
  if (addition.done) return <Added addition={addition} />;
  return (
    <Ask label="Add to a dataset …" title="Make a task of this trace?" confirm="Add" needs="develop" act={() => addition.add(chosen, [trace])}>
      <p>
        The dataset gets a new version with the trace’s input, and its answer where feedback or a label says that it is right. The version before is kept, and can be made the latest again.
      </p>
      <label>
        Dataset
        <input type="text" list="datasets" value={name} placeholder={chosen || "name"} onChange={(event) => setName(event.target.value)} />
      </label>
      <datalist id="datasets">
        {datasets.data?.datasets.map((dataset) => (
          <option key={dataset.name} value={dataset.name} />
        ))}
      </datalist>
    </Ask>
  );
}
