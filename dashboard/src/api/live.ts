import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { root } from "./client";

/** polled: the server answers, but its events do not come through, as behind some proxies. */
export type Connection = "connecting" | "live" | "polled" | "away";

/** What each event makes stale. Keys are the first part of a query's key. */
const STALE: Record<string, string[]> = {
  "rollouts.created": ["runs", "overview"],
  "rollouts.finished": ["runs", "traces", "overview", "reruns"],
  "rollouts.cancelled": ["runs", "reruns"],
  "rollouts.expired": ["runs"],
  "agents.activated": ["overview", "releases", "agents"],
  "agents.changed": ["overview", "agents"],
  "agents.split": ["agents"],
  "feedback.given": ["traces", "overview", "conversations"],
  "releases.changed": ["releases", "overview"],
  "spans.stored": ["traces", "conversations", "overview"],
};

let connection: Connection = "connecting";
const listeners = new Set<() => void>();

function become(next: Connection): void {
  if (next === connection) return;
  connection = next;
  listeners.forEach((each) => each());
}

export function useConnection(): Connection {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => connection,
  );
}

/**
 * Follow the server's events. A browser reconnects by itself after an error of the network; an
 * answer that is no event stream (a proxy's page, a login) ends the source, so it is opened again
 * here, later and later up to every 15 seconds. Queries also poll, so a proxy that holds events
 * back or cuts them off only delays what is shown, and is no reason to call the server away.
 */
export function follow(queries: QueryClient): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wait = 1000;
  let stale = new Set<string>();
  let flushing: ReturnType<typeof setTimeout> | undefined;

  const flush = () => {
    flushing = undefined;
    const keys = stale;
    stale = new Set();
    for (const key of keys) void queries.invalidateQueries({ queryKey: [key] });
  };
  const mark = (name: string) => {
    for (const key of STALE[name] ?? []) stale.add(key);
    if (stale.size > 0) flushing ??= setTimeout(flush, 500);
  };
  /** Without events: is the server away, or only its stream? */
  const look = async () => {
    const answered = await fetch(`${root}/healthz`).then(
      (response) => response.ok,
      () => false,
    );
    if (source?.readyState === EventSource.OPEN) return;
    const back = answered && connection === "away";
    become(answered ? "polled" : "away");
    if (back) void queries.invalidateQueries();
  };
  const open = () => {
    source = new EventSource(`${root}/v1/events`);
    source.onopen = () => {
      const back = connection === "away";
      wait = 1000;
      become("live");
      if (back) void queries.invalidateQueries();
    };
    source.onerror = () => {
      void look();
      if (source?.readyState === EventSource.CLOSED) {
        timer = setTimeout(open, wait);
        wait = Math.min(wait * 2, 15_000);
      }
    };
    for (const name of Object.keys(STALE)) source.addEventListener(name, () => mark(name));
  };
  open();
  return () => {
    source?.close();
    clearTimeout(timer);
    clearTimeout(flushing);
  };
}
