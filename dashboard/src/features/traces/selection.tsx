// What can be done with the selected traces, and which are selected.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { counted } from "../../lib/format";
import { newId } from "../../lib/id";
import { pathOf } from "../../lib/paths";
import { Problem } from "../../ui/basics";
import { useAllowed } from "../../ui/session";

import { Added, useAddition } from "./add_to_dataset";

/** Maximum number of traces that one request may add to a dataset. */
export const MOST = 100;

/** The ids of selected traces; a click with Shift selects the range since the last one. */
export function useSelection(traces: Schemas["Trace"][]) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const anchor = useRef(0);
  const shown = useRef(traces);
  useEffect(() => {
    shown.current = traces;
  });
  const choose = useRef((place: number, to: boolean, isRange: boolean) => {
    const [first, last] = isRange ? [Math.min(anchor.current, place), Math.max(anchor.current, place)] : [place, place];
    anchor.current = place;
    setChosen((before) => {
      const after = new Set(before);
      for (const trace of shown.current.slice(first, last + 1)) if (to) after.add(trace.trace_id);
        else after.delete(trace.trace_id);
      return after;
    });
  });
  return {
    chosen: traces.filter((trace) => chosen.has(trace.trace_id)).map((trace) => trace.trace_id),
    choose: choose.current,
    set: (ids: Iterable<string>) => setChosen(new Set(ids)),
  };
}

export function SelectionBar({ ids, agent, clear }: { ids: string[]; agent: string; clear: () => void }) {
  const allowed = useAllowed("develop");
  const datasets = useQuery({ queryKey: ["datasets"], queryFn: () => api.GET("/v1/dataset-versions", { params: { query: {} } }) });
  const [name, setName] = useState("");
  const [labelled, setLabelled] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const addition = useAddition();
  const known = datasets.data?.datasets ?? [];
  const dataset = name.trim() || known[0]?.name || agent.replace(/[^\w.-]+/g, "-");
  const act = async (work: () => Promise<unknown>) => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const label = (value: number) =>
    act(async () => {
      await api.POST("/v1/labels", { body: { labels: ids.map((trace_id) => ({ id: newId(), trace_id, value, drawn: "chosen" as const })) } });
      setLabelled(`${counted(ids.length, "trace")} labelled ${value ? "right" : "wrong"}.`);
    });
  const cannot = allowed ? undefined : "Needs a key with the scope develop";
  return (
    <div className="selection" role="region" aria-label="Selected traces">
      <b>{ids.length} selected</b>
      <label>
        Dataset
        <input type="text" list="datasets-of-selection" style={{ width: 140 }} value={name} placeholder={dataset} onChange={(event) => setName(event.target.value)} />
      </label>
      <datalist id="datasets-of-selection">
        {known.map((each) => (
          <option key={each.name} value={each.name} />
        ))}
      </datalist>
      <button type="button" className="primary" disabled={!allowed || busy || ids.length > MOST} title={ids.length > MOST ? `At most ${MOST} at once` : cannot} onClick={() => void act(() => addition.add(dataset, ids))}>
        Add to {dataset}
      </button>
      <button type="button" disabled={!allowed || busy} title={cannot} onClick={() => void label(1)}>
        Label right
      </button>
      <button type="button" disabled={!allowed || busy} title={cannot} onClick={() => void label(0)}>
        Label wrong
      </button>
      {ids.length === 2 && (
        <Link className="button" to={pathOf("trace", ids[0] ?? "")} search={{ with: ids[1] }}>
          Compare
        </Link>
      )}
      <button type="button" className="plain" onClick={clear}>
        Clear
      </button>
      <Added addition={addition} />
      {labelled && <span role="status">{labelled}</span>}
      {error != null && <Problem error={error} />}
    </div>
  );
}
