// What both candidates answered to each task of a proof, side by side; what got worse comes first.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, type Schemas } from "../../api/client";
import { counted, line, number, score, signed, text, visible } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Loading, Problem, State } from "../../ui/basics";
import { type Evidence, type EvidencePair, gainOf } from "./recompute";
import { IS } from "./tally";

/** Pairs whose outputs are fetched at once: two rollouts each. */
const FIRST = 6;
const MORE = 20;

const TABS = [
  ["lost", "Regressions"],
  ["won", "Improvements"],
  ["level", "Level"],
] as const;

export function Outputs({ evidence, experiment }: { evidence: Evidence; experiment: Schemas["Experiment"] }) {
  const { show } = useSearch({ from: "/experiments/$id" });
  const [shown, setShown] = useState(FIRST);
  const is = IS(evidence);
  const gain = (pair: EvidencePair) => gainOf(evidence, pair) ?? 0;
  const of = (outcome: "lost" | "won" | "level") => evidence.pairs.filter((pair) => is[outcome](pair) && pair.rollouts);
  const groups = { lost: of("lost").sort((one, other) => gain(one) - gain(other)), won: of("won").sort((one, other) => gain(other) - gain(one)), level: of("level") };
  const chosen = show === "won" || show === "level" || show === "lost" ? groups[show] : [...groups.lost, ...groups.won, ...groups.level];
  const pairs = chosen.slice(0, shown);
  const ids = pairs.flatMap((pair) => pair.rollouts ?? []);
  const rollouts = useQuery({
    queryKey: ["rollouts", "lookup", ids],
    enabled: ids.length > 0,
    refetchInterval: false,
    staleTime: Infinity,
    placeholderData: keepPreviousData,
    queryFn: () => api.POST("/v1/rollouts/lookup", { body: { ids } }),
  });
  const total = groups.lost.length + groups.won.length + groups.level.length;
  if (total === 0) return null;
  return (
    <section aria-labelledby="outputs">
      <div className="row">
        <h2 id="outputs">Both outputs of each task</h2>
        <nav className="row" aria-label="Outcomes" style={{ gap: 6 }}>
          <Tab label="Regressions first" search={undefined} chosen={show} count={total} id={experiment.id} />
          {TABS.map(([outcome, label]) => (
            <Tab key={outcome} label={label} search={outcome} chosen={show} count={groups[outcome].length} id={experiment.id} />
          ))}
        </nav>
      </div>
      {rollouts.error != null && <Problem error={rollouts.error} />}
      {rollouts.isPending && ids.length > 0 && <Loading />}
      {chosen.length === 0 && <p className="muted">{show === "lost" ? "No task got worse." : "No task is among these."}</p>}
      {rollouts.data && pairs.map((pair) => <Pair key={pair.pair} pair={pair} gain={gain(pair)} rollouts={rollouts.data.rollouts} />)}
      {pairs.length < chosen.length && (
        <button type="button" onClick={() => setShown(shown + MORE)}>
          Show more of {counted(chosen.length, "task")}
        </button>
      )}
    </section>
  );
}

function Tab({ label, search, chosen, count, id }: { label: string; search: string | undefined; chosen: string | undefined; count: number; id: string }) {
  return (
    <Link to={pathOf("experiment", id)} search={(before: Record<string, string | undefined>) => ({ ...before, show: search })} resetScroll={false} className={chosen === search ? "badge info" : "badge"} aria-current={chosen === search ? "true" : undefined}>
      {label} {number(count)}
    </Link>
  );
}

function Pair({ pair, gain, rollouts }: { pair: EvidencePair; gain: number; rollouts: Record<string, Schemas["Rollout"]> }) {
  const [before, after] = (pair.rollouts ?? []).map((id) => rollouts[id]);
  const either = after ?? before;
  const outcome = gain > 0 ? "better" : gain < 0 ? "worse" : "level";
  return (
    <article className="example" aria-label={`Task ${line(pair.task, 60)}`}>
      <header>
        <State of={outcome} tone={gain > 0 ? "good" : gain < 0 ? "bad" : ""} />
        <b>{signed(gain)}</b>
        <span className="muted">{line(pair.task, 80)}</span>
      </header>
      <div className="panes">
        <div>
          <h3>Input</h3>
          <Text of={either?.input} name="Input" />
          {either?.expected != null && (
            <>
              <h3 style={{ marginTop: 10 }}>Expected</h3>
              <Text of={either.expected} name="Expected" />
            </>
          )}
        </div>
        <Side name="Before" value={pair.baseline} rollout={before} id={pair.rollouts?.[0]} />
        <Side name="After" value={pair.candidate} rollout={after} id={pair.rollouts?.[1]} />
      </div>
    </article>
  );
}

function Side({ name, value, rollout, id }: { name: string; value: number | null; rollout: Schemas["Rollout"] | undefined; id: string | undefined }) {
  return (
    <div>
      <h3>
        {name} · {score(value)}
        {id && (
          <>
            {" "}
            · <Link to={pathOf("rollout", id)}>rollout</Link>
          </>
        )}
      </h3>
      {rollout ? <Text of={rollout.error || rollout.output} name={name} /> : <span className="muted">Its output is not kept any more.</span>}
    </div>
  );
}

function Text({ of, name }: { of: unknown; name: string }) {
  const shown = visible(text(of));
  if (!shown) return <span className="muted">nothing</span>;
  return (
    <pre dir="auto" tabIndex={0} role="group" aria-label={name}>
      {shown.length > 4_000 ? `${shown.slice(0, 4_000)}…` : shown}
    </pre>
  );
}
