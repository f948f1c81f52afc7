// Numbers, times and ids as people read them. Nothing here knows React.

const DASH = "–";

/** A number with three significant digits, grouped from 10,000 on. */
export function number(value: number | null | undefined, digits = 3): string {
  if (value == null || !Number.isFinite(value)) return DASH;
  if (Number.isInteger(value)) return value.toLocaleString("en", { useGrouping: "min2" as never });
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return Number(value.toPrecision(digits)).toString();
}

/** A score in [0, 1] with three decimals, so that columns align. */
export function score(value: number | null | undefined): string {
  return value == null || !Number.isFinite(value) ? DASH : value.toFixed(3);
}

/** A difference of scores, always with its sign. */
export function signed(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return DASH;
  return (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(3);
}

/** Dollars; a cost that is not known in full reads "≥ $0.02" or "not known". */
export function dollars(cost: number | null | undefined, known?: number): string {
  if (cost == null) return known ? `≥ ${dollars(known)}` : "not known";
  if (cost === 0) return "$0";
  if (cost < 0.0001) return "< $0.0001";
  return `$${cost < 1 ? Number(cost.toPrecision(2)).toString() : cost.toFixed(2)}`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return DASH;
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 3600) return inTwo(Math.round(seconds), 60, "min", "s");
  if (seconds < 86400) return inTwo(Math.round(seconds / 60), 60, "h", "min");
  return `${Number((seconds / 86400).toPrecision(3))} days`;
}

/** A whole number of small units as large and small ones: 90 s are "1 min 30 s", 120 s "2 min". */
function inTwo(count: number, size: number, large: string, small: string): string {
  const rest = count % size;
  return `${Math.floor(count / size)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** How long ago, in the largest unit that fits: "3 min ago", "in 2 h". */
export function ago(unix: number, now: number): string {
  const past = now - unix;
  const size = Math.abs(past);
  if (size < 5) return "now";
  const [amount, unit] =
    size < 60 ? [size, "s"] : size < 3600 ? [size / 60, "min"] : size < 86400 ? [size / 3600, "h"] : [size / 86400, "d"];
  const shown = `${Math.floor(amount)} ${unit}`;
  return past >= 0 ? `${shown} ago` : `in ${shown}`;
}

/** Date and time in the viewer's zone. */
export function moment(unix: number): string {
  return new Date(unix * 1000).toLocaleString(undefined, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
}

/** The first digits of a content hash or id. */
export function short(id: string): string {
  return id.length > 12 ? id.slice(0, 8) : id;
}

export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${number(count)} ${count === 1 ? noun : plural}`;
}

/** A state's name for display: "pull_request" reads "pull request". */
export function words(state: string): string {
  return state.replaceAll("_", " ");
}

/** Any JSON value as text: strings as they are, a list of words or numbers on one line, others indented. */
export function text(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((each) => each === null || typeof each !== "object")) return `[${value.map((each) => JSON.stringify(each)).join(", ")}]`;
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}

/**
 * Text with its invisible and direction-changing characters shown as escapes, so that a name in a
 * list cannot pretend to be another one. Line breaks and tabs stay.
 */
export function visible(value: string): string {
  return value.replace(
    // eslint-disable-next-line no-control-regex
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A value as a word of a shell's command, for names that agents, users and addresses give. */
export function quoted(value: string): string {
  return /^[\w.:@%+/-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
}

/** A line of at most `limit` characters, without line breaks. */
export function line(value: string, limit = 200): string {
  const flat = visible(value.slice(0, limit * 2)).replace(/\s+/g, " ").trim();
  return flat.length > limit ? `${flat.slice(0, limit)}…` : flat;
}
