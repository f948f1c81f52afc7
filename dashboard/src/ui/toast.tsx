// What an act did, said at the edge of the page for a moment; a screen reader hears it too.
import { CircleCheck, X } from "lucide-react";
import { useEffect, useSyncExternalStore } from "react";

const SHOWN_MS = 7_000;

interface Toast {
  id: number;
  text: string;
}

let toasts: Toast[] = [];
let last = 0;
const listeners = new Set<() => void>();

function become(next: Toast[]): void {
  toasts = next;
  listeners.forEach((each) => each());
}

/** Say what was done. */
export function toast(text: string): void {
  become([...toasts.slice(-2), { id: ++last, text }]);
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-label="Done">
      {shown.map((each) => (
        <Shown key={each.id} of={each} />
      ))}
    </div>
  );
}

function Shown({ of }: { of: Toast }) {
  const close = () => become(toasts.filter((each) => each.id !== of.id));
  useEffect(() => {
    const timer = setTimeout(() => become(toasts.filter((each) => each.id !== of.id)), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [of.id]);
  return (
    <div className="toast">
      <CircleCheck size={16} aria-hidden />
      <span>{of.text}</span>
      <button type="button" className="icon-only" aria-label="Dismiss" onClick={close}>
        <X size={14} aria-hidden />
      </button>
    </div>
  );
}
