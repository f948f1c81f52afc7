// Make a task of this trace. The version before stays, and is the latest again with one press.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { counted, line } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Ask } from "../../ui/dialog";
import { republish } from "../datasets/versions";

export function AddToDataset({ trace }: { trace: string }) {
  const queries = useQueryClient();
  const datasets = useQuery({ queryKey: ["datasets"], queryFn: () => api.GET("/v1/dataset-versions", { params: { query: {} } }) });
  const [name, setName] = useState("");
  const [done, setDone] = useState<{ name: string; answer: Schemas["TracesAdded"] }>();
  const chosen = name.trim() || (datasets.data?.datasets[0]?.name ?? "");
  const add = async () => {
    const answer = await api.POST("/v1/datasets/{name}/traces", { params: { path: { name: chosen } }, body: { traces: [trace] } });
    setDone({ name: chosen, answer });
    await queries.invalidateQueries({ queryKey: ["datasets"] });
  };
  const undo = async () => {
    if (!done) return;
    await republish(done.answer.before);
    setDone(undefined);
    await queries.invalidateQueries({ queryKey: ["datasets"] });
  };
  if (done)
    return (
      <span className="row" role="status">
        {done.answer.tasks.length > 0 ? (
          <>
            <span>
              {counted(done.answer.tasks.length, "task")} in <Link to={pathOf("dataset", done.name)}>{line(done.name, 40)}</Link>
            </span>
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
  return (
    <Ask label="Add to a dataset …" title="Make a task of this trace?" confirm="Add" needs="develop" act={add}>
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
