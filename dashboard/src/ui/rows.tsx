// The frame of a list: it scrolls sideways where it is too wide, and J and K go from row to row.
import { type ReactNode, useRef } from "react";
import { useKeys } from "../lib/keys";

/** A table of things that each have a page: the focus is on the link of the current row, so Enter opens it. */
export function Rows({ children }: { children: ReactNode }) {
  const frame = useRef<HTMLDivElement>(null);
  const go = (by: number) => {
    const links = [...(frame.current?.querySelectorAll<HTMLTableRowElement>("tbody tr") ?? [])].map((row) => row.querySelector<HTMLElement>("a[href]")).filter((link) => link !== null);
    const at = links.findIndex((link) => link === document.activeElement);
    const next = links[Math.max(0, Math.min(at < 0 ? 0 : at + by, links.length - 1))];
    next?.focus();
    next?.closest("tr")?.scrollIntoView({ block: "nearest" });
  };
  useKeys({ j: () => go(1), k: () => go(-1) });
  return (
    <div className="scroll" tabIndex={0} ref={frame}>
      {children}
    </div>
  );
}
