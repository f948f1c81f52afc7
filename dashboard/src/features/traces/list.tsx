// The list of traces: filters in the URL, keyboard, and new traces that never move what is read.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { address, api, type Schemas } from "../../api/client";
import { download, toCsv } from "../../lib/export";
import { counted, dollars, duration, line, number, short } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, Time, waiting } from "../../ui/basics";
import { SavedViews } from "./saved_views";

type Filters = Record<string, string | undefined>;

/** What a live call records of the release that it ran. */
const RECORDED = ["candidate", "canary", "arm", "group"] as const;

/** The URL's texts as the API's query. */
function criteria(search: Filters) {
  const since = search.since ? Date.now() / 1000 - Number(search.since) * 3600 : undefined;
  const from = amount(search.from);
  const until = amount(search.until);
  return {
    agent: search.agent,
    name: search.name,
    conversation_id: search.conversation_id,
    errors: search.errors === "1" || undefined,
    feedback: search.feedback === "1" || undefined,
    rollouts: search.rollouts === "1" || undefined,
    since: from ?? (since && Number.isFinite(since) ? Math.floor(since / 60) * 60 : undefined),
    until,
    min_duration_s: amount(search.min_duration_s),
    min_cost_usd: amount(search.min_cost_usd),
    candidate_id: search.candidate,
    experiment_id: search.canary,
    arm: (["baseline", "candidate"] as const).find((each) => each === search.arm),
    group: search.group,
    sort: (["newest", "slowest", "costliest"] as const).find((each) => each === search.sort),
  };
}

function amount(text: string | undefined): number | undefined {
  const value = Number(text);
  return text && Number.isFinite(value) && value >= 0 ? value : undefined;
}

/** Unix seconds as a field for date and time shows them: in the viewer's zone. */
export function local(seconds: string | undefined): string {
  const unix = amount(seconds);
  if (unix === undefined) return "";
  const date = new Date(unix * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The same filter for the command line. */
export function commandOf(search: Filters): string {
  const words = ["ratchet traces"];
  const quoted = (value: string) => (/^[\w./@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`);
  if (search.agent) words.push(`--agent ${quoted(search.agent)}`);
  if (search.errors === "1") words.push("--errors");
  if (search.feedback === "1") words.push("--feedback");
  if (search.rollouts === "1") words.push("--rollouts");
  if (search.conversation_id) words.push(`--conversation ${quoted(search.conversation_id)}`);
  const [from, until] = [amount(search.from), amount(search.until)];
  const iso = (seconds: number) => `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
  if (until !== undefined) words.push(`--until ${iso(until)}`);
  if (search.name) words.push(`--name ${quoted(search.name)}`);
  for (const name of RECORDED) if (search[name]) words.push(`--${name} ${quoted(search[name])}`);
  if (from !== undefined) words.push(`--since ${iso(from)}`);
  else if (search.since) words.push(`--since ${quoted(`${search.since}h`)}`);
  if (search.min_duration_s) words.push(`--min-duration ${quoted(search.min_duration_s)}`);
  if (search.min_cost_usd) words.push(`--min-cost ${quoted(search.min_cost_usd)}`);
  if (search.sort && search.sort !== "newest") words.push(`--sort ${quoted(search.sort)}`);
  return words.join(" ");
}

export function TracesPage() {
  const search: Filters = useSearch({ from: "/traces" });
  const navigate = useNavigate({ from: "/traces" });
  const queries = useQueryClient();
  const query = criteria(search);
  const pages = useInfiniteQuery({
    queryKey: ["trace-list", query],
    initialPageParam: undefined as string | undefined,
    refetchInterval: false,
    staleTime: Infinity,
    queryFn: ({ pageParam }) => api.GET("/v1/traces", { params: { query: { ...query, limit: 100, cursor: pageParam } } }),
    getNextPageParam: (last) => last.next_cursor ?? undefined,
  });
  const mark = pages.data?.pages[0]?.mark;
  const newer = useQuery({
    queryKey: ["traces", "newer", query, mark],
    enabled: mark != null,
    refetchInterval: 3_000,
    queryFn: () => api.GET("/v1/traces", { params: { query: { ...query, sort: undefined, limit: 100, after: mark } } }),
  });
  const traces = pages.data?.pages.flatMap((page) => page.traces) ?? [];
  const shown = new Set(traces.map((trace) => trace.trace_id));
  const fresh = newer.data?.traces.filter((trace) => !shown.has(trace.trace_id)).length ?? 0;
  const set = (changed: Filters) => void navigate({ search: (before: Filters) => ({ ...before, ...changed }), replace: true });

  const [at, setAt] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const table = useRef<HTMLTableElement>(null);
  useEffect(() => setAt(-1), [search]);
  const move = (by: number) => {
    const next = Math.max(0, Math.min(at + by, traces.length - 1));
    setAt(next);
    table.current?.tBodies[0]?.rows[next]?.scrollIntoView({ block: "nearest" });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => traces[at] && void navigate({ to: pathOf("trace", traces[at].trace_id) }),
    "/": () => field.current?.focus(),
  });

  return (
    <Page title="Traces" actions={<Command text={commandOf(search)} />}>
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Name contains" value={search.name} set={(name) => set({ name })} input={field} />
        <Field label="Agent" value={search.agent} set={(agent) => set({ agent })} />
        <Field label="Conversation" value={search.conversation_id} set={(conversation_id) => set({ conversation_id })} />
        <Field label="Longer than (s)" value={search.min_duration_s} set={(min_duration_s) => set({ min_duration_s })} narrow />
        <Field label="Dearer than ($)" value={search.min_cost_usd} set={(min_cost_usd) => set({ min_cost_usd })} narrow />
        <label>
          Since
          <select value={search.since ?? ""} onChange={(event) => set({ since: event.target.value || undefined, from: undefined })}>
            <option value="">always</option>
            <option value="1">1 hour</option>
            <option value="24">1 day</option>
            <option value="168">7 days</option>
            <option value="720">30 days</option>
          </select>
        </label>
        <label>
          From
          <input type="datetime-local" value={local(search.from)} onChange={(event) => set({ from: event.target.value ? String(new Date(event.target.value).getTime() / 1000) : undefined, since: undefined })} />
        </label>
        <label>
          Before
          <input type="datetime-local" value={local(search.until)} onChange={(event) => set({ until: event.target.value ? String(new Date(event.target.value).getTime() / 1000) : undefined })} />
        </label>
        <label>
          Order
          <select value={search.sort ?? "newest"} onChange={(event) => set({ sort: event.target.value === "newest" ? undefined : event.target.value })}>
            <option>newest</option>
            <option>slowest</option>
            <option>costliest</option>
          </select>
        </label>
        {(["errors", "feedback", "rollouts"] as const).map((name) => (
          <label key={name}>
            <input type="checkbox" checked={search[name] === "1"} onChange={(event) => set({ [name]: event.target.checked ? "1" : undefined })} />
            {name === "errors" ? "failed" : name === "feedback" ? "with feedback" : "rollouts too"}
          </label>
        ))}
        {RECORDED.map(
          (name) =>
            search[name] && (
              <button key={name} type="button" className="badge info" title="Take this filter away" onClick={() => set({ [name]: undefined })}>
                {name} {name === "candidate" || name === "canary" ? short(search[name]) : line(search[name], 40)} ✕
              </button>
            ),
        )}
        <SavedViews />
      </form>
      <div style={{ minHeight: 34 }} aria-live="polite">
        {fresh > 0 && (
          <button type="button" className="primary" onClick={() => void queries.resetQueries({ queryKey: ["trace-list"] })}>
            {fresh >= 100 ? "100 or more new" : `${fresh} new`}
          </button>
        )}
      </div>
      {waiting(pages)}
      {pages.data && traces.length === 0 && (
        <Empty command={Object.keys(search).length ? undefined : `OTEL_EXPORTER_OTLP_ENDPOINT=${address()} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf python my_agent.py`}>
          {Object.keys(search).length
            ? "No trace fits these filters."
            : "No trace has been received. Send this server OpenTelemetry spans, or let an agent's base URL lead to its gateway:"}
        </Empty>
      )}
      {traces.length > 0 && (
        <div className="scroll" tabIndex={0}>
          <table ref={table} aria-label="Traces">
            <thead>
              <tr>
                <th>began</th>
                <th>agent</th>
                <th>name</th>
                <th className="num">took</th>
                <th className="num">spans</th>
                <th className="num">tokens</th>
                <th className="num">cost</th>
                <th className="num" title="The lowest value, and how many there are">lowest feedback</th>
              </tr>
            </thead>
            <tbody>
              {traces.map((trace, place) => (
                <TraceRow key={trace.trace_id} trace={trace} selected={place === at} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div className="row" style={{ marginTop: 8 }}>
        {pages.hasNextPage && (
          <button type="button" disabled={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {pages.isFetchingNextPage ? "Loading …" : "More"}
          </button>
        )}
        {traces.length > 0 && (
          <button type="button" onClick={() => download("traces.csv", "text/csv", csvOf(traces))}>
            CSV
          </button>
        )}
        {traces.length > 0 && (
          <span className="muted small">
            {counted(traces.length, "trace")} shown{pages.hasNextPage ? ", there are more" : ""}. <kbd>J</kbd> <kbd>K</kbd> move, <kbd>Enter</kbd> opens, <kbd>/</kbd> filters.
          </span>
        )}
      </div>
    </Page>
  );
}

function csvOf(traces: Schemas["Trace"][]): string {
  return toCsv(
    ["trace", "began", "agent", "name", "duration_s", "spans", "errors", "input_tokens", "output_tokens", "cost_usd", "known_usd", "lowest_feedback", "feedback", "conversation", "rollout"],
    traces.map((each) => [
      each.trace_id, new Date(each.start_ns / 1e6).toISOString(), each.agent, each.name, each.duration_s, each.spans, each.errors,
      each.input_tokens, each.output_tokens, each.cost_usd, each.known_usd, each.worst, each.feedback, each.conversation_id, each.rollout_id,
    ]),
  );
}

function TraceRow({ trace, selected }: { trace: Schemas["Trace"]; selected: boolean }) {
  return (
    <tr aria-selected={selected}>
      <td style={{ whiteSpace: "nowrap" }}>
        <Time at={trace.start_ns / 1e9} />
      </td>
      <td className="wrap">{line(trace.agent, 60)}</td>
      <td className="wrap">
        <Link to={pathOf("trace", trace.trace_id)}>{line(trace.name, 120) || "(no name)"}</Link>{" "}
        {trace.errors > 0 && <span className="badge bad">✕ {counted(trace.errors, "error")}</span>}{" "}
        {trace.rootless && <span className="badge" title="The first span has not been received">no root</span>}
      </td>
      <td className="num">{duration(trace.duration_s)}</td>
      <td className="num">{number(trace.spans)}</td>
      <td className="num">{number(trace.input_tokens + trace.output_tokens)}</td>
      <td className="num">{dollars(trace.cost_usd, trace.known_usd)}</td>
      <td className="num">{trace.feedback ? `${number(trace.worst)} (${trace.feedback})` : ""}</td>
    </tr>
  );
}

/** A text filter that takes effect when typing pauses. */
function Field({ label, value, set, narrow, input }: { label: string; value?: string; set: (value: string | undefined) => void; narrow?: boolean; input?: React.Ref<HTMLInputElement> }) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  useEffect(() => {
    if (text === (value ?? "")) return;
    const timer = setTimeout(() => set(text || undefined), 300);
    return () => clearTimeout(timer);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [text]);
  return (
    <label>
      {label}
      <input ref={input} type="search" style={{ width: narrow ? 72 : 130 }} value={text} onChange={(event) => setText(event.target.value)} />
    </label>
  );
}
