// Two traces side by side: their steps aligned, and what the selected one holds in each.
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, type Schemas } from "../../api/client";
import { dollars, duration, line, moment, number, short } from "../../lib/format";
import { pathOf } from "../../lib/paths";
import { waiting } from "../../ui/basics";
import { Ask } from "../../ui/dialog";
import { type Aligned, align } from "./alignment";
import { useSkeleton } from "./skeleton";
import { SpanContent } from "./span_content";
import { rowsOf, treeOf } from "./tree";

type Skeleton = Schemas["SpanSkeleton"];
const MOST = 2_000;

/** Chooses the other trace; the newest of the same agent are offered. */
export function CompareWith({ trace, agent }: { trace: string; agent: string }) {
  const navigate = useNavigate({ from: "/traces/$id" });
  const [other, setOther] = useState("");
  const newest = useQuery({
    queryKey: ["traces", "newest", agent],
    queryFn: () => api.GET("/v1/traces", { params: { query: { agent, limit: 20 } } }),
    refetchInterval: false,
  });
  const offered = newest.data?.traces.filter((each) => each.trace_id !== trace) ?? [];
  return (
    <Ask
      label="Compare …"
      title="Compare with another trace"
      confirm="Compare"
      disabled={false}
      act={async () => {
        const { trace: found } = await api.GET("/v1/traces/{id}/skeleton", { params: { path: { id: other.trim() || (offered[0]?.trace_id ?? trace) } } });
        await navigate({ search: (before) => ({ ...before, with: found.trace_id, span: undefined }) });
      }}
    >
      <label>
        Trace
        <input type="text" list="traces-offered" value={other} placeholder={offered[0] ? short(offered[0].trace_id) : "id"} onChange={(event) => setOther(event.target.value)} />
      </label>
      <datalist id="traces-offered">
        {offered.map((each) => (
          <option key={each.trace_id} value={each.trace_id}>
            {`${line(each.name, 40)}, ${moment(each.start_ns / 1e9)}`}
          </option>
        ))}
      </datalist>
    </Ask>
  );
}

export function Compared({ one, id }: { one: Schemas["TraceSkeleton"]; id: string }) {
  const other = useSkeleton(id);
  return (
    <>
      <p className="row">
        <span>
          <b>A</b>: this trace, <b>B</b>: <Link to={pathOf("trace", id)}>{short(id)}</Link>
        </span>
        <Link to="/traces/$id" params={{ id: one.trace.trace_id }} className="plain">
          stop comparing
        </Link>
      </p>
      {waiting(other)}
      {other.data && <Steps one={one} other={other.data} />}
    </>
  );
}

function Steps({ one, other }: { one: Schemas["TraceSkeleton"]; other: Schemas["TraceSkeleton"] }) {
  const { span: wanted } = useSearch({ from: "/traces/$id" });
  const navigate = useNavigate({ from: "/traces/$id" });
  const rows = useMemo(() => align(flat(one.spans), flat(other.spans)), [one, other]);
  const id = (row: Aligned<Skeleton>) => (row.one ?? row.other!).span.span_id;
  const selected = rows.find((row) => id(row) === wanted) ?? rows[0];
  const cut = Math.max(one.total, other.total) > MOST;
  const [a, b] = [one.trace, other.trace];
  return (
    <>
      <div className="scroll" tabIndex={0}>
        <table aria-label="The two traces">
          <thead>
            <tr>
              <td />
              <th className="num">A</th>
              <th className="num">B</th>
            </tr>
          </thead>
          <tbody>
            <Both name="began" of={[moment(a.start_ns / 1e9), moment(b.start_ns / 1e9)]} />
            <Both name="took" of={[duration(a.duration_s), duration(b.duration_s)]} />
            <Both name="spans" of={[number(one.total), number(other.total)]} />
            <Both name="failed" of={[number(a.errors), number(b.errors)]} />
            <Both name="tokens in" of={[number(a.input_tokens), number(b.input_tokens)]} />
            <Both name="tokens out" of={[number(a.output_tokens), number(b.output_tokens)]} />
            <Both name="cost" of={[dollars(a.cost_usd, a.known_usd), dollars(b.cost_usd, b.known_usd)]} />
          </tbody>
        </table>
      </div>
      {cut && <p className="note">The first {number(MOST)} spans of each are compared.</p>}
      <h2>Steps</h2>
      <div className="scroll" tabIndex={0} style={{ maxHeight: "50vh" }}>
        <table aria-label="Steps of both traces">
          <thead>
            <tr>
              <th>step</th>
              <th className="num">A</th>
              <th className="num">B</th>
              <th>only in</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const node = (row.one ?? row.other)!;
              return (
                <tr key={`${row.one?.span.span_id ?? ""} ${row.other?.span.span_id ?? ""}`} aria-selected={row === selected}>
                  <td style={{ paddingLeft: 4 + Math.min(node.depth, 12) * 14 }}>
                    <button type="button" className="plain" onClick={() => void navigate({ search: (before) => ({ ...before, span: id(row) }), replace: true })}>
                      {line(node.span.name, 80)}
                    </button>
                  </td>
                  <td className="num">{took(row.one?.span)}</td>
                  <td className="num">{took(row.other?.span)}</td>
                  <td>{!row.one ? <span className="badge">B</span> : !row.other ? <span className="badge">A</span> : ""}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {selected && (
        <div className="sides">
          <div>{selected.one ? <SpanContent trace={a.trace_id} skeleton={selected.one.span} /> : <p className="muted">A has no such step.</p>}</div>
          <div>{selected.other ? <SpanContent trace={b.trace_id} skeleton={selected.other.span} /> : <p className="muted">B has no such step.</p>}</div>
        </div>
      )}
    </>
  );
}

function Both({ name, of: [one, other] }: { name: string; of: [string, string] }) {
  return (
    <tr>
      <th>{name}</th>
      <td className="num">{one}</td>
      <td className="num">{one === other ? one : <b>{other}</b>}</td>
    </tr>
  );
}

const flat = (spans: Skeleton[]) => rowsOf(treeOf(spans.slice(0, MOST)), new Set());
const took = (span: Skeleton | undefined) => (span ? `${duration((span.end_ns - span.start_ns) / 1e9)}${span.status === "error" ? " ✕" : ""}` : "");
