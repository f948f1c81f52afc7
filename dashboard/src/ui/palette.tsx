// ⌘K: pages by name, everything else by the first digits of its id.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Dialog } from "radix-ui";
import { useEffect, useState } from "react";
import { api } from "../api/client";
import { line, short } from "../lib/format";
import { pathOf } from "../lib/paths";
import { PAGES } from "./pages";

/** Digits from which an id is looked for. */
const SHORTEST = 3;

interface Entry {
  kind: string;
  id: string;
  title: string;
}

export function Palette({ close }: { close: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const wanted = text.trim();
  const found = useQuery({
    queryKey: ["find", wanted],
    enabled: wanted.length >= SHORTEST,
    refetchInterval: false,
    queryFn: () => api.GET("/v1/find", { params: { query: { q: wanted } } }),
  });
  const entries: Entry[] = [
    ...PAGES.filter(([, label]) => label.toLowerCase().startsWith(wanted.toLowerCase())).map(([to, label]) => ({ kind: "page", id: to, title: label })),
    ...(wanted.length >= SHORTEST ? (found.data?.found ?? []) : []),
  ];
  useEffect(() => setAt(0), [wanted]);
  const go = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    void navigate({ to: entry.kind === "page" ? entry.id : pathOf(entry.kind, entry.id) });
  };
  return (
    <Dialog.Root open onOpenChange={(open) => !open && close()}>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content className="dialog" aria-describedby={undefined}>
          <Dialog.Title asChild>
            <h2 style={{ margin: "0 0 8px" }}>Find</h2>
          </Dialog.Title>
          <input
            type="search"
            style={{ width: "100%" }}
            aria-label="Page, or the first digits of an id"
            role="combobox"
            aria-expanded={entries.length > 0}
            aria-controls="found"
            aria-activedescendant={entries[at] ? `found-${at}` : undefined}
            placeholder="A page, or the first digits of an id"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "ArrowDown") setAt(Math.min(at + 1, entries.length - 1));
              else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
              else if (event.key === "Enter") go(entries[at]);
              else return;
              event.preventDefault();
            }}
          />
          <ul className="found" id="found" role="listbox" aria-label="Found">
            {entries.map((entry, place) => (
              <li
                key={`${entry.kind}/${entry.id}`}
                id={`found-${place}`}
                role="option"
                aria-selected={place === at}
                onClick={() => go(entry)}
                onKeyDown={undefined}
              >
                <span className="badge">{entry.kind}</span>
                {entry.kind !== "page" && <code>{short(entry.id)}</code>}
                <span className="clip">{line(entry.title, 80)}</span>
              </li>
            ))}
          </ul>
          {wanted.length > 0 && wanted.length < SHORTEST && entries.length === 0 && <p className="muted">An id is found by its first {SHORTEST} digits or more.</p>}
          {wanted.length >= SHORTEST && !found.isPending && entries.length === 0 && (
            <p className="muted">Nothing begins with “{line(wanted, 40)}”.</p>
          )}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
