// One dataset: its versions and where they come from, its tasks, and what changed since another version.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { download } from "../../lib/export";
import { counted, line, moment, number, quoted, score, short, text } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { Behind, Command, Facts, Page, Time, waiting } from "../../ui/basics";
import { TextDiff } from "../../ui/diff";
import { LongText } from "../../ui/long_text";
import { AddTask, Changed, EditTask, kindOf, Refinement, useChanges, useRefinement } from "./changes";
import { compare } from "./compare";
import { Synthesis } from "./synthesis";

const PAGE = 100;

export function DatasetPage() {
  const { name } = useParams({ from: "/datasets/$name" });
  const { version, against, split, q, task, kind } = useSearch({ from: "/datasets/$name" });
  const navigate = useNavigate({ from: "/datasets/$name" });
  const versions = useQuery({ queryKey: ["datasets", name], queryFn: () => api.GET("/v1/dataset-versions", { params: { query: { name } } }) });
  const shown = version ?? versions.data?.datasets[0]?.version;
  const dataset = useVersion(shown);
  const other = useVersion(against);
  const summary = versions.data?.datasets.find((each) => each.version === shown);
  const set = (changed: Record<string, string | undefined>) => void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  return (
    <Page title={line(name, 60)} actions={<Command text={`ratchet datasets show ${quoted(name)}`} />}>
      {waiting(versions)}
      {versions.data?.datasets.length === 0 && <p className="note">There is no dataset of this name.</p>}
      {summary && (
        <>
          <div className="row">
            <label>
              Version
              <select value={shown} onChange={(event) => set({ version: event.target.value })}>
                {versions.data?.datasets.map((each) => (
                  <option key={each.version} value={each.version}>
                    {short(each.version)}, {moment(each.put_at)}
                  </option>
                ))}
              </select>
            </label>
            <label>
              compared with
              <select value={against ?? ""} onChange={(event) => set({ against: event.target.value || undefined })}>
                <option value="">nothing</option>
                {versions.data?.datasets
                  .filter((each) => each.version !== shown)
                  .map((each) => (
                    <option key={each.version} value={each.version}>
                      {short(each.version)}, {moment(each.put_at)}
                    </option>
                  ))}
              </select>
            </label>
            {dataset.data && (
              <button type="button" onClick={() => download(`${name}-${short(dataset.data.version)}.jsonl`, "application/jsonl", dataset.data.tasks.map((each) => `${JSON.stringify({ ...each, split: dataset.data.splits[each.id] })}\n`).join(""))}>
                JSONL
              </button>
            )}
          </div>
          <Facts
            of={[
              ["made", <Time key="made" at={summary.created_at} />],
              ["how", summary.provenance],
              ["from version", summary.parent && <Link key="parent" to={pathOf("dataset", name)} search={{ version: summary.parent }}>{short(summary.parent)}</Link>],
              ["what changed", summary.reason],
              ["splits", Object.entries(summary.splits).map(([each, count]) => <span key={each}>{each} <Behind where={{ to: pathOf("dataset", name), search: { version, split: each }, hash: "tasks" }}>{number(count)}</Behind> </span>)],
            ]}
          />
        </>
      )}
      {dataset.data && other.data && <Compared before={other.data} after={dataset.data} />}
      {dataset.data && !other.data && (
        <Changeable
          dataset={dataset.data}
          latest={dataset.data.version === versions.data?.datasets[0]?.version}
          split={split}
          q={q}
          kind={kind}
          selected={task}
          set={set}
        />
      )}
      {waiting(dataset)}
    </Page>
  );
}

function useVersion(version: string | undefined) {
  return useQuery({
    queryKey: ["datasets", "version", version],
    enabled: Boolean(version),
    refetchInterval: false,
    staleTime: Infinity,
    placeholderData: version ? keepPreviousData : undefined,
    queryFn: () => api.GET("/v1/datasets/{version}", { params: { path: { version: version! } } }),
  });
}

interface Listed {
  dataset: Schemas["DatasetView"];
  split?: string;
  q?: string;
  /** A kind of live inputs: only tasks of it. */
  kind?: string;
  selected?: string;
  set: (changed: Record<string, string | undefined>) => void;
}

/** The tasks; those of the latest version can be changed. */
function Changeable({ latest, ...listed }: Listed & { latest: boolean }) {
  const { change, undo } = useChanges(listed.dataset);
  const [made, setMade] = useState<Schemas["DatasetChanged"]>();
  const keep = async (changes: Parameters<typeof change>[0]) => setMade(await change(changes));
  return (
    <>
      <Changed
        made={made}
        undo={() => {
          setMade(undefined);
          if (made) void undo(made.before);
        }}
      />
      {latest && <Refinement dataset={listed.dataset} change={keep} open={(task) => listed.set({ task, split: undefined, q: task })} />}
      {latest && <Synthesis dataset={listed.dataset} add={(add, split) => keep({ add, split })} />}
      <Tasks {...listed} edit={latest ? (edited) => keep({ edit: [edited] }) : undefined} add={latest ? (task, split) => keep({ add: [task], split }) : undefined} />
    </>
  );
}

type Edit = (edited: Schemas["EditedTask"]) => Promise<unknown>;

/** Mean scores of each task, of the source and the best candidate of the newest run on this version. */
function useScores(version: string) {
  const runs = useQuery({ queryKey: ["runs"], queryFn: () => api.GET("/v1/runs", { params: { query: { limit: 200 } } }) });
  const run = runs.data?.runs.find((each) => each.dataset_version === version && each.best_id && each.baseline_id);
  const found = useQuery({
    queryKey: ["runs", run?.id, "tasks", run?.best_id],
    enabled: run !== undefined,
    refetchInterval: false,
    queryFn: () => api.GET("/v1/runs/{id}/tasks", { params: { path: { id: run!.id }, query: { candidate: run!.best_id, other: run!.baseline_id } } }),
  });
  return { run, evaluator: found.data?.evaluator, of: new Map(found.data?.tasks.map((task) => [task.task_id, task])) };
}

type Add = Parameters<typeof AddTask>[0]["add"];

function Tasks({ dataset, split, q, kind, selected, set, edit, add }: Listed & { edit?: Edit; add?: Add }) {
  const scores = useScores(dataset.version);
  const [many, setMany] = useState(PAGE);
  const refinement = useRefinement(dataset, kind !== undefined);
  const cluster = refinement.data?.coverage?.clusters.find((each) => kindOf(each) === kind);
  const found = useMemo(() => {
    const sought = q?.toLowerCase() ?? "";
    const places = kind === undefined ? null : new Set(cluster?.of_tasks);
    return dataset.tasks.filter((task, place) => (!places || places.has(place)) && (!split || dataset.splits[task.id] === split) && (!sought || `${task.id} ${text(task.input)} ${text(task.expected)}`.toLowerCase().includes(sought)));
  }, [dataset, split, q, kind, cluster]);
  return (
    <>
      <h2 id="tasks">Tasks</h2>
      <div className="row">
        {kind !== undefined && (
          <button type="button" className="badge info" title="Take this filter away" onClick={() => set({ kind: undefined })}>
            like live inputs with: {line(kind, 60)} ✕
          </button>
        )}
        <label>
          Split
          <select value={split ?? ""} onChange={(event) => set({ split: event.target.value || undefined })}>
            <option value="">all</option>
            {[...new Set(Object.values(dataset.splits))].map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          Contains
          <input type="search" value={q ?? ""} onChange={(event) => set({ q: event.target.value || undefined })} />
        </label>
        <span className="muted">{counted(found.length, "task")}</span>
        {kind !== undefined && waiting(refinement)}
        {scores.run && (
          <span className="muted">
            {scores.evaluator}: means in <Link to={pathOf("run", scores.run.id)}>the newest run</Link> on this version
          </span>
        )}
        {add && <AddTask add={add} />}
      </div>
      <div className="scroll" tabIndex={0}>
        <table aria-label="Tasks">
          <thead>
            <tr>
              <th>task</th>
              <th>split</th>
              <th>input</th>
              <th>expected</th>
              {scores.run && <th className="num">source</th>}
              {scores.run && <th className="num">best</th>}
              <th>from</th>
            </tr>
          </thead>
          <tbody>
            {found.slice(0, many).map((task) => (
              <TaskRow key={task.id} task={task} split={dataset.splits[task.id] ?? ""} open={task.id === selected} toggle={() => set({ task: task.id === selected ? undefined : task.id })} edit={edit} scores={scores.run && [scores.of.get(task.id)?.other, scores.of.get(task.id)?.candidate]} />
            ))}
          </tbody>
        </table>
      </div>
      {found.length > many && (
        <button type="button" onClick={() => setMany(many + 10 * PAGE)}>
          More of {counted(found.length, "task")}
        </button>
      )}
    </>
  );
}

function TaskRow({ task, split, open, toggle, edit, scores }: { task: Schemas["Task"]; split: string; open: boolean; toggle: () => void; edit?: Edit; scores?: (number | null | undefined)[] }) {
  return (
    <>
      <tr aria-selected={open}>
        <td>
          <button type="button" className="plain" aria-expanded={open} onClick={toggle}>
            {line(task.id, 40)}
          </button>
        </td>
        <td>{split}</td>
        <td className="wrap long">{line(text(task.input), 120)}</td>
        <td className="wrap">{line(text(task.expected), 80)}</td>
        {scores?.map((value, at) => (
          <td key={at} className="num">
            {score(value)}
          </td>
        ))}
        <td>{task.origin.made}</td>
      </tr>
      {open && (
        <tr>
          <td colSpan={scores ? 7 : 5} className="top">
            {edit && <EditTask key={JSON.stringify([task.input, task.expected])} task={task} change={edit} />}
            <h3>Input</h3>
            <LongText text={text(task.input)} mono />
            <h3>Expected</h3>
            <LongText text={text(task.expected)} mono />
            {Object.keys(task.metadata).length > 0 && (
              <>
                <h3>Metadata</h3>
                <LongText text={text(task.metadata)} mono />
              </>
            )}
            {task.origin.sources.length > 0 && (
              <p>
                Made from{" "}
                {task.origin.sources.map((source) => (
                  <span key={source}>{/^[0-9a-f]{32}$/.test(source) ? <Link to={pathOf("trace", source)}>trace {short(source)} </Link> : <code>{line(source, 80)} </code>}</span>
                ))}
                {task.origin.by && `by ${line(task.origin.by, 60)}`}
              </p>
            )}
          </td>
        </tr>
      )}
    </>
  );
}

function Compared({ before, after }: { before: Schemas["DatasetView"]; after: Schemas["DatasetView"] }) {
  const found = useMemo(() => compare(before, after), [before, after]);
  return (
    <>
      <h2>
        {counted(found.added.length, "task")} added, {number(found.removed.length)} removed, {number(found.changed.length)} changed, {number(found.moved.length)} moved to another split
      </h2>
      {found.changed.slice(0, PAGE).map(({ before: one, after: two }) => (
        <section key={two.id}>
          <h3>{line(two.id)}</h3>
          <TextDiff by="words" before={`${text(one.input)}\n→ ${text(one.expected)}`} after={`${text(two.input)}\n→ ${text(two.expected)}`} />
        </section>
      ))}
      <Names title="Added" of={found.added.map((task) => task.id)} />
      <Names title="Removed" of={found.removed.map((task) => task.id)} />
      <Names title="Moved" of={found.moved.map(({ task, from, to }) => `${task.id}: ${from} → ${to}`)} />
    </>
  );
}

function Names({ title, of }: { title: string; of: string[] }) {
  if (of.length === 0) return null;
  return (
    <details open={of.length <= 20}>
      <summary>
        {title}: {number(of.length)}
      </summary>
      <LongText text={of.join("\n")} mono />
    </details>
  );
}
