// One dialog for everything that changes something: it asks once and says what follows.
import { AlertDialog } from "radix-ui";
import { type ReactNode, useState } from "react";
import { Problem } from "./basics";
import { type Scope, useAllowed } from "./session";
import { toast } from "./toast";

interface Asking {
  /** Label of the button that opens the dialog. */
  label: string;
  /** Accessible name of that button, where the label alone does not say what it is about. */
  named?: string;
  /** Show that button as plain text. */
  plain?: boolean;
  title: string;
  /** What follows when it is confirmed. */
  children: ReactNode;
  /** Label of the button that does it. */
  confirm: string;
  danger?: boolean;
  /** Ask for a reason, which is handed to `act`; it may not be empty. */
  reason?: boolean;
  /** Where the reason is kept; all reasons are in the audit log. */
  keeps?: string;
  disabled?: boolean;
  /** Whether what was entered in the dialog can be confirmed. */
  ready?: boolean;
  /** Scope that the caller needs. */
  needs?: Scope;
  act: (reason: string) => Promise<unknown>;
  /** What was done, said for a moment afterwards. */
  done?: string;
  /** Room for what the dialog shows. */
  wide?: boolean;
  primary?: boolean;
}

export function Ask({ label, named, plain, title, children, confirm, danger, reason, keeps, disabled, ready = true, needs, act, done, wide, primary }: Asking) {
  const allowed = useAllowed(needs);
  const [open, setOpen] = useState(false);
  const [why, setWhy] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const go = async () => {
    setBusy(true);
    setError(null);
    try {
      await act(why.trim());
      if (done) toast(done);
      setOpen(false);
      setWhy("");
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <AlertDialog.Root open={open} onOpenChange={setOpen}>
      <AlertDialog.Trigger asChild>
        <button type="button" className={danger ? "danger" : primary ? "primary" : plain ? "plain small" : ""} aria-label={named} disabled={disabled || !allowed} title={allowed ? undefined : `Needs a key with the scope ${needs}`}>
          {label}
        </button>
      </AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className="overlay" />
        <AlertDialog.Content className={wide ? "dialog wide" : "dialog"}>
          <AlertDialog.Title asChild>
            <h2 style={{ marginTop: 0 }}>{title}</h2>
          </AlertDialog.Title>
          <AlertDialog.Description asChild>
            <div>{children}</div>
          </AlertDialog.Description>
          {reason && (
            <label className="stack" style={{ alignItems: "stretch", marginTop: 12 }}>
              Reason, kept in {keeps ? `${keeps} and ` : ""}the audit log
              <textarea required value={why} onChange={(event) => setWhy(event.target.value)} maxLength={2000} />
            </label>
          )}
          {error != null && <Problem error={error} />}
          <div className="actions">
            <AlertDialog.Cancel asChild>
              <button type="button">Cancel</button>
            </AlertDialog.Cancel>
            <button
              type="button"
              className={danger ? "danger" : "primary"}
              disabled={busy || !ready || (reason && !why.trim())}
              onClick={() => void go()}
            >
              {busy ? "Working …" : confirm}
            </button>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
