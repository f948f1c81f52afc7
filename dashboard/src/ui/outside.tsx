// A link that leaves the page. Addresses come from forges and models: only web addresses are links.
import { line } from "../lib/format";

export function Outside({ to, children }: { to: string; children?: string }) {
  if (!/^https?:\/\//i.test(to)) return <span>{line(children ?? to)}</span>;
  return (
    <a href={to} target="_blank" rel="noopener noreferrer">
      {line(children ?? to)}
    </a>
  );
}
