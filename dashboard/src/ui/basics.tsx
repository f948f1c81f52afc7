// Small pieces that every page uses.
import { Link } from "@tanstack/react-router";
import { Check, Copy as CopyIcon } from "lucide-react";
import { Fragment, type ReactNode, useEffect, useState, useSyncExternalStore } from "react";
import { Refusal } from "../api/client";
import { ago, moment, visible, words } from "../lib/format";
import { Mistake } from "../lib/mistake";

export type Tone = "good" | "bad" | "warn" | "info" | "";

const TONES: Record<string, Tone> = {
  fixed: "good", promote: "good", promoted: "good", shipped: "good", active: "good", merged: "good", succeeded: "good", done: "good", pass: "good",
  returned: "bad", open: "warn", harm: "bad", failed: "bad", rolled_back: "bad", error: "bad", quarantined: "bad", rollback: "bad", alarm: "bad",
  approval: "warn", held: "warn", unconfirmed: "warn", not_proved: "warn", guardrail: "warn", hold: "warn", inconclusive: "warn", drift: "warn", proposed: "warn", pull_request: "warn",
  learning: "info", learn: "info", prove: "info", baseline: "info", ship: "info", running: "info", canary: "info", shadow: "info", watch: "info",
};
const SIGNS: Record<Tone, string> = { good: "✓", bad: "✕", warn: "!", info: "●", "": "" };

/** A state in a word, with a sign beside its colour. */
export function State({ of, tone = TONES[of] ?? "" }: { of: string; tone?: Tone }) {
  return (
    <span className={`badge ${tone}`}>
      {SIGNS[tone] && <span aria-hidden>{SIGNS[tone]}</span>}
      {words(of)}
    </span>
  );
}

let now = Date.now() / 1000;
const clocks = new Set<() => void>();
setInterval(() => {
  now = Date.now() / 1000;
  clocks.forEach((each) => each());
}, 5000);

/** Seconds since 1970, renewed every five seconds. */
export function useNow(): number {
  return useSyncExternalStore(
    (listener) => {
      clocks.add(listener);
      return () => clocks.delete(listener);
    },
    () => now,
  );
}

export function Time({ at }: { at: number }) {
  const shown = ago(at, useNow());
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={moment(at)}>
      {shown}
    </time>
  );
}

/** `title` is the name of the browser's tab too; `above` says what kind of thing it is, and leads back to the list. */
export function Page({ title, above, actions, children }: { title: string; above?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Ratchet`;
  }, [title]);
  return (
    <div className="inside">
      <div className="head">
        <div className="named">
          {above && <div className="above">{above}</div>}
          <h1>{title}</h1>
        </div>
        {actions && <div className="actions">{actions}</div>}
      </div>
      {children}
    </div>
  );
}

/** What to show while a query runs or has failed; null when its data is there. */
export function waiting(query: { isPending: boolean; error: unknown; data: unknown }): ReactNode {
  if (query.data !== undefined) return null;
  if (query.error) return <Problem error={query.error} />;
  return query.isPending ? <Loading /> : null;
}

export function Problem({ error }: { error: unknown }) {
  const sentence = error instanceof Refusal ? error.detail : error instanceof Mistake ? error.message : `The page failed: ${String(error)}`;
  return (
    <div className="note bad" role="alert">
      {sentence}
    </div>
  );
}

/** Stands where the content will be, once that takes longer than a moment. */
export function Loading() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 250);
    return () => clearTimeout(timer);
  }, []);
  if (!late) return null;
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: 6 }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}

/** An empty list: why, and the command that fills it. */
export function Empty({ children, command }: { children: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <p>{children}</p>
      {command && <Command text={command} />}
    </div>
  );
}

/** A command to copy. What others gave of it is `quoted`. */
export function Command({ text }: { text: string }) {
  return (
    <span className="command">
      <code>
        {text.split(" ").map((word, at) => (
          <Fragment key={at}>
            {at > 0 && " "}
            <span>{visible(word)}</span>
          </Fragment>
        ))}
      </code>
      <Copy text={text} label="Copy the command" />
    </span>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button"
      className="icon-only"
      aria-label={done ? "Copied" : label}
      title={label}
      onClick={() => void navigator.clipboard.writeText(text).then(() => setDone(true))}
    >
      {done ? <Check size={14} aria-hidden /> : <CopyIcon size={14} aria-hidden />}
    </button>
  );
}

/** Where the things are that a figure counts: a page with its filters, and a place on it. */
export interface Where {
  to: string;
  search?: Record<string, string | undefined>;
  hash?: string;
}

/** A figure as the link to what it counts. */
export function Behind({ where, children }: { where: Where | undefined; children: ReactNode }) {
  if (!where) return <>{children}</>;
  return (
    <Link to={where.to} search={where.search ?? {}} hash={where.hash} className="behind" title="What is behind this figure">
      {children}
    </Link>
  );
}

export function Figure({ label, children, title, behind }: { label: string; children: ReactNode; title?: string; behind?: Where }) {
  return (
    <div className="figure" title={title}>
      <b>
        <Behind where={behind}>{children}</Behind>
      </b>
      <span className="muted small">{label}</span>
    </div>
  );
}

/** A labelled list of facts; entries without a value are left out. */
export function Facts({ of }: { of: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {of
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div key={name} style={{ display: "contents" }}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}
