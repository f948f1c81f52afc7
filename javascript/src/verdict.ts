/** What an answer of the server, or its absence, says of what was sent, and what to do about it. */

import type { Answer } from "./http";

/** What became of a batch. */
export interface Verdict {
  /** Of one that is `away`, another try may be stored. */
  readonly outcome: "stored" | "refused" | "too large" | "away";
  /** Items of a stored batch that the server rejected. */
  readonly rejected: number;
  /** Why not all of it is stored, and the cure; empty if it is. */
  readonly why: string;
}

const STORED: Verdict = { outcome: "stored", rejected: 0, why: "" };

/**
 * Judges the answer to a batch.
 *
 * @param server The server's address.
 * @param path Where the batch was sent.
 * @param count Items of the batch.
 * @param answer The answer, or the error that came instead.
 * @param keyed Whether a key was sent.
 */
export function verdictOf(
  server: string,
  path: string,
  count: number,
  answer: Answer | Error,
  keyed: boolean,
): Verdict {
  if (answer instanceof Error) return away(unreachable(server, answer));
  const { status, body } = answer;
  if (status === 401 || status === 403) {
    const refusal = keyed ? `refuses the key (${status})` : `asks for a key (${status})`;
    return away(`${server} ${refusal}. Set RATCHET_KEY to a key of the scope \`ingest\`.`);
  }
  if (status === 413) {
    const why = `${server} takes no span that large (413). Record less with it, or raise the limit of the proxy.`;
    return { outcome: "too large", rejected: 0, why };
  }
  if (status === 408 || status === 429 || (status >= 500 && status !== 501)) {
    return away(`${server} answers ${status}${said(body)}. Its log says why.`);
  }
  const json = jsonOf(body);
  const stored = status >= 200 && status < 300;
  const foreign = stored ? !isReceipt(path, json) : status < 400 || [404, 405, 410, 501].includes(status);
  if (foreign) {
    const form = stored ? `${status}, but not as Ratchet does` : String(status);
    return away(
      `${server} is no Ratchet server: it answers POST ${path} with ${form}.` +
        " Set RATCHET_URL to the server's address.",
    );
  }
  if (!stored) {
    return { outcome: "refused", rejected: 0, why: `${server} refuses what was sent (${status})${said(body)}.` };
  }
  const partial = (json?.["partialSuccess"] ?? json?.["partial_success"] ?? {}) as Record<string, unknown>;
  const rejected = Number(partial["rejectedSpans"] ?? partial["rejected_spans"] ?? 0);
  if (!(rejected > 0)) return STORED;
  const message = String(partial["errorMessage"] ?? partial["error_message"] ?? "");
  return {
    outcome: "stored",
    rejected: Math.min(Math.trunc(rejected), count),
    why: `${server} rejected them${said(message)}.`,
  };
}

function away(why: string): Verdict {
  return { outcome: "away", rejected: 0, why };
}

function unreachable(server: string, error: Error): string {
  const { code = error.message } = error as NodeJS.ErrnoException;
  if (code === "ETIMEDOUT") {
    return `${server} does not answer in time. See whether a Ratchet server runs there, and is not overloaded.`;
  }
  return (
    `${server} cannot be reached (${code}).` +
    " Start `ratchet serve` there, or set RATCHET_URL to the server's address."
  );
}

/** Whether JSON is what a Ratchet server says of a batch that it took. */
function isReceipt(path: string, json: Record<string, unknown> | undefined): boolean {
  if (json === undefined) return false;
  if (path !== "/v1/traces") return true;
  return Object.keys(json).every((key) => key === "partialSuccess" || key === "partial_success");
}

function jsonOf(body: string): Record<string, unknown> | undefined {
  try {
    const json: unknown = JSON.parse(body);
    return typeof json === "object" && json !== null && !Array.isArray(json)
      ? (json as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** The beginning of what a server says, on one line. */
function said(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line ? `: ${line.slice(0, 300).replace(/\.$/, "")}` : "";
}
