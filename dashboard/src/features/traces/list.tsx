// The list of traces: filters in the URL, keyboard, and new traces that never move what is read.
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { address, api, type Schemas } from "../../api/client";
import { download, toCsv } from "../../lib/export";
import { counted, line, moment, quoted, short } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { pathOf } from "../../lib/paths";
import { Command, Empty, Page, waiting } from "../../ui/basics";
import { TraceRow } from "./row";
import { SavedViews } from "./saved_views";
import { SelectionBar, useSelection } from "./selection";
import "./traces.css";

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
    search: search.q,
    model: search.model,
    user: search.user,
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
  if (search.q) words.push(`--search ${quoted(search.q)}`);
  if (search.model) words.push(`--model ${quoted(search.model)}`);
  if (search.user) words.push(`--user ${quoted(search.user)}`);
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
  const withUser = traces.some((trace) => trace.user);
  const fresh = newer.data?.traces.filter((trace) => !shown.has(trace.trace_id)).length ?? 0;
  const set = (changed: Filters) => void navigate({ search: (before: Filters) => ({ ...before, ...changed }), replace: true });

  const { agent: _a, model: _m, user: _u, errors: _e, feedback: _f, sort: _s, ...unfaceted } = query;
  const facets = useQuery({
    queryKey: ["traces", "facets", unfaceted],
    refetchInterval: false,
    queryFn: () => api.GET("/v1/trace-facets", { params: { query: unfaceted } }),
  });
  const { chosen, choose, set: setChosen } = useSelection(traces);
  const selected = new Set(chosen);
  const behind = pages.data?.pages[0]?.complete_until;

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
    x: () => traces[at] && choose(at, !selected.has(traces[at].trace_id), false),
    "/": () => field.current?.focus(),
  });

  return (
    <Page title="Traces" actions={<Command text={commandOf(search)} />}>
      <form className="row" role="search" onSubmit={(event) => event.preventDefault()}>
        <Field label="Search" hint='words, "a phrase", a beginn*' value={search.q} set={(q) => set({ q })} input={field} wide />
        <Facet label="Agent" counts={facets.data?.agents} value={search.agent} set={(agent) => set({ agent })} />
        <Facet label="Model" counts={facets.data?.models} value={search.model} set={(model) => set({ model })} />
        <Facet label="User" counts={facets.data?.users} value={search.user} set={(user) => set({ user })} />
        {(["errors", "feedback", "rollouts"] as const).map((name) => (
          <label key={name}>
            <input type="checkbox" checked={search[name] === "1"} onChange={(event) => set({ [name]: event.target.checked ? "1" : undefined })} />
            {name === "errors" ? "failed" : name === "feedback" ? "with feedback" : "rollouts too"}
            {facets.data && name !== "rollouts" && <span className="muted">{name === "errors" ? facets.data.failed : facets.data.feedback}</span>}
          </label>
        ))}
        <SavedViews />
        <details className="filters" open={DETAILS.some((name) => search[name]) || undefined}>
        <summary>More filters</summary>
        <div className="row">
        <Field label="Name contains" value={search.name} set={(name) => set({ name })} />
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
        </div>
        </details>
        {RECORDED.map(
          (name) =>
            search[name] && (
              <button key={name} type="button" className="badge info" title="Take this filter away" onClick={() => set({ [name]: undefined })}>
                {name} {name === "candidate" || name === "canary" ? short(search[name]) : line(search[name], 40)} ✕
              </button>
            ),
        )}
      </form>
      <div style={{ minHeight: 34 }} aria-live="polite">
        {fresh > 0 && (
          <button type="button" className="primary" onClick={() => void queries.resetQueries({ queryKey: ["trace-list"] })}>
            {fresh >= 100 ? "100 or more new" : `${fresh} new`}
          </button>
        )}
      </div>
      {behind != null && (search.q || search.model || search.user) && (
        <p className="muted small" role="status">
          The search is complete up to {moment(behind)}; later traces are being indexed.
        </p>
      )}
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
                <th>
                  <input type="checkbox" aria-label="Select all shown" checked={traces.length > 0 && selected.size === traces.length} onChange={(event) => setChosen(event.target.checked ? traces.map((trace) => trace.trace_id) : [])} />
                </th>
                <th>began</th>
                <th>input → output</th>
                <th>agent</th>
                <th>model</th>
                {withUser && <th>user</th>}
                <th className="num">took</th>
                <th className="num">spans</th>
                <th className="num">cost</th>
                <th className="num" title="The lowest value, and how many there are">feedback</th>
              </tr>
            </thead>
            <tbody>
              {traces.map((trace, place) => (
                <TraceRow key={trace.trace_id} trace={trace} place={place} current={place === at} chosen={selected.has(trace.trace_id)} withUser={withUser} choose={choose} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {chosen.length > 0 && <SelectionBar ids={chosen} agent={traces.find((trace) => selected.has(trace.trace_id))?.agent ?? ""} clear={() => setChosen([])} />}
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
            {counted(traces.length, "trace")} shown{pages.hasNextPage ? ", there are more" : ""}. <kbd>J</kbd> <kbd>K</kbd> move, <kbd>Enter</kbd> opens, <kbd>X</kbd> selects, <kbd>/</kbd> searches.
          </span>
        )}
      </div>
    </Page>
  );
}

function csvOf(traces: Schemas["Trace"][]): string {
  return toCsv(
    ["trace", "began", "agent", "name", "duration_s", "spans", "errors", "input_tokens", "output_tokens", "cost_usd", "known_usd", "lowest_feedback", "feedback", "conversation", "rollout", "user", "models", "input", "output", "error"],
    traces.map((each) => [
      each.trace_id, new Date(each.start_ns / 1e6).toISOString(), each.agent, each.name, each.duration_s, each.spans, each.errors,
      each.input_tokens, each.output_tokens, each.cost_usd, each.known_usd, each.worst, each.feedback, each.conversation_id, each.rollout_id,
      each.user, each.models.join(" "), each.input, each.output, each.error,
    ]),
  );
}

/** Filters that are folded away until one of them is set. */
const DETAILS = ["name", "conversation_id", "min_duration_s", "min_cost_usd", "since", "from", "until", "sort"] as const;

/** A filter by one of the values that traces have, with their number. */
function Facet({ label, counts, value, set }: { label: string; counts: Record<string, number> | undefined; value?: string; set: (value: string | undefined) => void }) {
  const values = Object.entries(counts ?? {}).filter(([each]) => each);
  if (values.length === 0 && !value) return null;
  return (
    <label>
      {label}
      <select value={value ?? ""} style={{ maxWidth: 180 }} onChange={(event) => set(event.target.value || undefined)}>
        <option value="">all</option>
        {value && !values.some(([each]) => each === value) && <option value={value}>{line(value, 40)}</option>}
        {values.map(([each, traces]) => (
          <option key={each} value={each}>
            {`${line(each, 40)} (${traces})`}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A text filter that takes effect when typing pauses. */
function Field({ label, hint, value, set, narrow, wide, input }: { label: string; hint?: string; value?: string; set: (value: string | undefined) => void; narrow?: boolean; wide?: boolean; input?: React.Ref<HTMLInputElement> }) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  useEffect(() => {
    if (text === (value ?? "")) return;
    const timer = setTimeout(() => set(text || undefined), 300);
    return () => clearTimeout(timer);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [text]);
  return (
    <label className={wide ? "trace-search" : undefined}>
      {label}
      <input ref={input} type="search" placeholder={hint} style={wide ? undefined : { width: narrow ? 72 : 130 }} value={text} onChange={(event) => setText(event.target.value)} />
    </label>
  );
}
