// The curves of a training, while it runs and after.
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useMemo } from "react";
import { api } from "../../api/client";
import { Curve } from "../../charts/curves";
import { Picture } from "../../charts/picture";
import { download } from "../../lib/export";
import { counted, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Command, Page, waiting } from "../../ui/basics";
import { about, titled } from "./names";
import { Steps } from "./steps";

/** Shown first, in this order; other metrics follow by name. */
const FIRST = ["val", "reward", "loss", "entropy", "kl", "clip_share", "gap", "tokens_per_s", "staleness"];

export function TrainingRunPage() {
  const { name } = useParams({ from: "/training/$name" });
  const curves = useQuery({ queryKey: ["training", name], refetchInterval: 5_000, queryFn: () => api.GET("/v1/training-runs/{name}", { params: { path: { name } } }) });
  const data = curves.data;
  const series = useMemo(() => {
    const records = data?.records ?? [];
    const names = [...new Set(records.flatMap((record) => Object.keys(record.metrics)))];
    const rank = (each: string) => (FIRST.includes(each) ? FIRST.indexOf(each) : FIRST.length);
    names.sort((one, other) => rank(one) - rank(other) || one.localeCompare(other));
    const steps = records.map((record) => record.step);
    return names.map((each) => ({ name: each, x: steps, y: records.map((record) => record.metrics[each] ?? null) }));
  }, [data]);
  return (
    <Page
      title={`Training ${titled(name)}`}
      actions={
        <>
          {data && (
            <button type="button" onClick={() => download(`${name}.json`, "application/json", JSON.stringify(data, null, 1))}>
              JSON
            </button>
          )}
          <Command text={`ratchet train runs ${name} --png curves.png`} />
        </>
      }
    >
      {waiting(curves)}
      {data && (
        <p className="muted">
          {counted(data.steps, "step")}
          {data.every > 1 && `; every ${data.every}th is shown, and each that was compared on val`}
          {data.run_id && (
            <>
              {" "}
              of <Link to={pathOf("run", data.run_id)}>run {short(data.run_id)}</Link>
            </>
          )}
        </p>
      )}
      <div className="grid">
        {series.map((each) => (
          <Picture key={each.name} name={`${name}-${each.name}`}>
            <Curve title={about(each.name)} x={each.x} y={each.y} />
          </Picture>
        ))}
      </div>
      {data && data.records.length > 0 && <Steps of={data.records} run={data.run_id} />}
    </Page>
  );
}
