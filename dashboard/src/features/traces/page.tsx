// One trace: a virtual list of rows that is tree and timeline at once, and the selected span.
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { type Schemas } from "../../api/client";
import { counted, dollars, duration, line, moment, number, short } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { pathOf } from "../../lib/paths";
import { Command, Facts, Figure, Page, waiting } from "../../ui/basics";
import { Label } from "../evaluators/label";
import { TryEvaluator } from "../evaluators/try";
import { Rerun, RunAgain } from "../reruns/run_again";
import { AddToDataset } from "./add_to_dataset";
import { Compared, CompareWith } from "./compared";
import { DialogueView } from "./dialogue_view";
import { useSkeleton } from "./skeleton";
import { SpanContent } from "./span_content";
import { barOf, extentOf, type Node, pathTo, rowsOf, treeOf } from "./tree";

type Skeleton = Schemas["SpanSkeleton"];
const ROW = 28;
const DEEPEST = 12;

export function TracePage() {
  const { id } = useParams({ from: "/traces/$id" });
  const { with: other, rerun, view } = useSearch({ from: "/traces/$id" });
  const navigate = useNavigate({ from: "/traces/$id" });
  const skeleton = useSkeleton(id);
  const data = skeleton.data;
  return (
    <Page title={data ? line(data.trace.name, 80) || "Trace" : "Trace"} actions={
        <>
          {data && <RunAgain of={{ trace: data.trace.trace_id }} show={(made) => void navigate({ search: (before) => ({ ...before, rerun: made }) })} />}
          {data && <AddToDataset trace={data.trace.trace_id} />}
          {data && <CompareWith trace={data.trace.trace_id} agent={data.trace.agent} />}
          <Command text={`ratchet show ${short(id)}`} />
        </>
      }>
      {rerun && <Rerun key={rerun} id={rerun} close={() => void navigate({ search: (before) => ({ ...before, rerun: undefined }) })} />}
      {waiting(skeleton)}
      {data && other && <Compared one={data} id={other} />}
      {data && !other && (
        <>
          <div className="figures">
            <Figure label="took">{duration(data.trace.duration_s)}</Figure>
            <Figure label="spans">{number(data.total)}</Figure>
            <Figure label="failed">{number(data.trace.errors)}</Figure>
            <Figure label="tokens in, out">
              {number(data.trace.input_tokens)} → {number(data.trace.output_tokens)}
            </Figure>
            <Figure label="cost">{dollars(data.trace.cost_usd, data.trace.known_usd)}</Figure>
          </div>
          <details style={{ margin: "8px 0" }}>
            <summary>Where it comes from</summary>
            <Facts
              of={[
                ["trace", <code key="id">{data.trace.trace_id}</code>],
                ["agent", <Link key="agent" to="/traces" search={{ agent: data.trace.agent }}>{line(data.trace.agent)}</Link>],
                ["began", moment(data.trace.start_ns / 1e9)],
                ["models", data.trace.models.join(", ")],
                ["conversation", data.trace.conversation_id && <Link key="conversation" to={pathOf("conversation", data.trace.conversation_id)}>{line(data.trace.conversation_id, 60)}</Link>],
                ["rollout", data.trace.rollout_id && <Link key="rollout" to={pathOf("rollout", data.trace.rollout_id)}>{short(data.trace.rollout_id)}</Link>],
              ]}
            />
          </details>
          {data.trace.rootless && <p className="note">The first span of this trace has not been received: it is late, or belongs to another service.</p>}
          {data.returned < data.total && (
            <p className="note">
              The first {number(data.returned)} of {counted(data.total, "span")} are shown.
            </p>
          )}
          {data.feedback.map((each) => (
            <p key={each.id} className="note">
              Feedback ({each.kind}
              {each.value != null && `, ${number(each.value)}`}): {line(each.comment, 400) || "no comment"}
            </p>
          ))}
          <div className="row">
            <Label of={data.trace.rollout_id ? { rollout_id: data.trace.rollout_id } : { trace_id: data.trace.trace_id }} />
            <TryEvaluator subject={data.trace.rollout_id || data.trace.trace_id} />
          </div>
          <nav className="tabs" aria-label="Views of the trace">
            <Link to="/traces/$id" params={{ id }} search={(before) => ({ ...before, view: undefined })} activeOptions={{ exact: true }}>
              Steps
            </Link>
            <Link to="/traces/$id" params={{ id }} search={(before) => ({ ...before, view: "conversation" })} activeOptions={{ exact: true }}>
              Conversation
            </Link>
          </nav>
          {view === "conversation" ? <DialogueView trace={data.trace.trace_id} spans={data.spans} /> : <Spans id={data.trace.trace_id} spans={data.spans} />}
        </>
      )}
    </Page>
  );
}

function Spans({ id, spans }: { id: string; spans: Skeleton[] }) {
  const { span: wanted } = useSearch({ from: "/traces/$id" });
  const navigate = useNavigate({ from: "/traces/$id" });
  const roots = useMemo(() => treeOf(spans), [spans]);
  const extent = useMemo(() => extentOf(spans), [spans]);
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [text, setText] = useState("");
  const rows = useMemo(() => rowsOf(roots, folded), [roots, folded]);
  const matches = useMemo(() => {
    const sought = text.trim().toLowerCase();
    return sought ? spans.filter((span) => span.name.toLowerCase().includes(sought) || span.message.toLowerCase().includes(sought)).map((span) => span.span_id) : [];
  }, [spans, text]);
  const selected = wanted && spans.some((span) => span.span_id === wanted) ? wanted : rows[0]?.span.span_id;
  const place = rows.findIndex((row) => row.span.span_id === selected);
  const scroller = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    getItemKey: (index) => rows[index]!.span.span_id,
    overscan: 16,
  });
  const select = (span: string | undefined) => {
    if (!span) return;
    setFolded((before) => {
      const above = pathTo(spans, span).filter((each) => before.has(each));
      return above.length ? new Set([...before].filter((each) => !above.includes(each))) : before;
    });
    void navigate({ search: (before) => ({ ...before, span }), replace: true });
  };
  useEffect(() => {
    if (place >= 0) virtual.scrollToIndex(place, { align: "auto" });
    // The list follows the selection, not each change of its rows.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [selected]);
  const fold = (span: string, shut: boolean) =>
    setFolded((before) => {
      const after = new Set(before);
      if (shut) after.add(span);
      else after.delete(span);
      return after;
    });
  const step = (by: number) => select(rows[Math.max(0, Math.min(place + by, rows.length - 1))]?.span.span_id);
  useKeys({
    j: () => step(1),
    ArrowDown: () => step(1),
    k: () => step(-1),
    ArrowUp: () => step(-1),
    ArrowLeft: () => selected && fold(selected, true),
    ArrowRight: () => selected && fold(selected, false),
    "/": () => field.current?.focus(),
    e: () => step(nextFailed(rows, place)),
  });
  return (
    <>
      <div className="row" style={{ margin: "8px 0" }}>
        <label>
          Find in names and errors
          <input
            ref={field}
            type="search"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || matches.length === 0) return;
              const next = matches[(matches.indexOf(selected ?? "") + (event.shiftKey ? matches.length - 1 : 1)) % matches.length];
              select(next);
            }}
          />
        </label>
        {text && <span className="muted">{counted(matches.length, "match", "matches")}; <kbd>Enter</kbd> goes to the next</span>}
        <button type="button" onClick={() => setFolded(new Set(spans.filter((span) => span.parent_id).map((span) => span.span_id)))}>
          Fold all
        </button>
        <button type="button" onClick={() => setFolded(new Set())}>
          Unfold all
        </button>
        <span className="muted small">
          <kbd>J</kbd> <kbd>K</kbd> move, <kbd>←</kbd> <kbd>→</kbd> fold, <kbd>E</kbd> next error
        </span>
      </div>
      <div className="trace">
        <div className="spans" ref={scroller} role="tree" aria-label="Spans" tabIndex={0} style={{ "--rows": rows.length } as React.CSSProperties} aria-activedescendant={selected ? `span-${selected}` : undefined}>
          <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
            {virtual.getVirtualItems().map((item) => {
              const row = rows[item.index]!;
              return (
                <Row
                  key={item.key}
                  row={row}
                  top={item.start}
                  extent={extent}
                  selected={row.span.span_id === selected}
                  folded={folded.has(row.span.span_id)}
                  fold={fold}
                  select={select}
                />
              );
            })}
          </div>
        </div>
        <div className="content" tabIndex={0} aria-label="The selected span">
          {selected && <SpanContent trace={id} skeleton={spans.find((span) => span.span_id === selected)!} />}
        </div>
      </div>
    </>
  );
}

function nextFailed(rows: Node<Skeleton>[], place: number): number {
  for (let by = 1; by < rows.length; by++) if (rows[(place + by) % rows.length]?.span.status === "error") return ((place + by) % rows.length) - place;
  return 0;
}

interface RowProps {
  row: Node<Skeleton>;
  top: number;
  extent: { start: number; length: number };
  selected: boolean;
  folded: boolean;
  fold: (span: string, shut: boolean) => void;
  select: (span: string) => void;
}

function Row({ row, top, extent, selected, folded, fold, select }: RowProps) {
  const { span } = row;
  const bar = barOf(span, extent);
  const took = duration((span.end_ns - span.start_ns) / 1e9);
  const failed = span.status === "error";
  const late = bar.left > 0.7;
  return (
    <div
      id={`span-${span.span_id}`}
      className="span"
      role="treeitem"
      aria-level={row.depth + 1}
      aria-selected={selected}
      aria-expanded={row.children.length ? !folded : undefined}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => select(span.span_id)}
    >
      <div className="label" style={{ paddingLeft: 4 + Math.min(row.depth, DEEPEST) * 14 }}>
        {row.children.length > 0 ? (
          <button
            type="button"
            className="fold"
            tabIndex={-1}
            aria-label={folded ? "Unfold" : "Fold"}
            onClick={(event) => {
              event.stopPropagation();
              fold(span.span_id, !folded);
            }}
          >
            {folded ? "▸" : "▾"}
          </button>
        ) : (
          <span className="fold" />
        )}
        <span className={`kind ${span.operation}`} aria-hidden />
        <span className="clip">{line(span.name, 120)}</span>
        {row.depth > DEEPEST && <span className="badge">level {row.depth + 1}</span>}
        {row.orphan && <span className="badge" title="Its parent has not been received, or its parents form a cycle">no parent</span>}
        {failed && <span className="badge bad">✕ failed</span>}
        {folded && row.below > 0 && <span className={`badge ${row.errorsBelow ? "bad" : ""}`}>+{row.below}</span>}
      </div>
      <div className="lane">
        <span className={`bar ${span.operation} ${failed ? "error" : ""}`} style={{ left: `${bar.left * 100}%`, width: `${bar.width * 100}%` }} />
        <span className={`took ${bar.width > 0.6 ? "inside" : ""}`} style={bar.width > 0.6 ? { left: `${bar.left * 100}%` } : late ? { right: `${(1 - bar.left) * 100}%` } : { left: `${(bar.left + bar.width) * 100}%` }}>
          {took}
        </span>
      </div>
    </div>
  );
}
