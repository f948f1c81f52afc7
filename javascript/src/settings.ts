/** Where a process sends its spans and feedback, and under which agent's name. */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { RatchetError, warnOnce } from "./errors";
import type { Redact } from "./redaction";

type Environment = Readonly<Record<string, string | undefined>>;

/** What `init` may be told. */
export interface InitOptions {
  /** The agent's name; RATCHET_AGENT, OTEL_SERVICE_NAME or the script's name when left out. */
  readonly agent?: string | undefined;
  /** The server's address; RATCHET_URL when left out. */
  readonly server?: string | undefined;
  /** The server's key; RATCHET_KEY when left out. */
  readonly key?: string | undefined;
  /** Whether inputs and outputs are recorded; true when left out. */
  readonly captureContent?: boolean | undefined;
  /** Whether prompts and params follow the agent's releases; true when left out. */
  readonly releases?: boolean | undefined;
  /**
   * Replaces what must not leave the process: gets each text of a span or of feedback, and its
   * attribute's name. Where it fails, the content of that span is left out.
   */
  readonly redact?: Redact | undefined;
}

const OPTIONS = new Set<string>(["agent", "server", "key", "captureContent", "releases", "redact"] satisfies Array<
  keyof InitOptions
>);

/** Where records go. */
export interface Settings {
  readonly agent: string;
  /** Without a slash at its end. */
  readonly server: string;
  readonly key: string;
  /** Attributes that name the attempt in a rollout; empty outside of rollouts. */
  readonly attempt: Readonly<Record<string, string>>;
  readonly content: boolean;
  /** Whether inputs and outputs are attributes for other exporters of the process too. */
  readonly contentForAll: boolean;
  readonly releases: boolean;
  /** Folder with the releases that were read last. */
  readonly state: string;
  /** Providers whose model calls Ratchet's gateway records. */
  readonly recorded: readonly string[];
  readonly redact: Redact | undefined;
}

/**
 * Settings of this process.
 *
 * In a rollout they come from the environment alone: what it does must not count as live traffic.
 *
 * @throws RatchetError if no server is named, or address, key or `redact` cannot be used.
 */
export function settingsOf(given: InitOptions, environment: Environment, inRollout: boolean): Settings {
  for (const option of Object.keys(given)) {
    if (OPTIONS.has(option)) continue;
    warnOnce(`init() has no option ${JSON.stringify(option)}; its options are ${[...OPTIONS].join(", ")}.`);
  }
  const { redact } = given;
  if (redact !== undefined && typeof redact !== "function") {
    throw new RatchetError(`The option \`redact\` is a function of a text, not ${typeof redact}.`);
  }
  const attempt = inRollout ? attemptOf(environment["OTEL_RESOURCE_ATTRIBUTES"] ?? "") : {};
  const endpoint = (environment["OTEL_EXPORTER_OTLP_ENDPOINT"] ?? "").replace(/\/+$/, "");
  if (inRollout && !attempt["ratchet.rollout.id"]) {
    throw new RatchetError("This rollout's server takes no spans.");
  }
  const server = inRollout ? endpoint : addressOf(given.server ?? environment["RATCHET_URL"] ?? "");
  const key = inRollout
    ? tokenOf(environment["OTEL_EXPORTER_OTLP_HEADERS"] ?? "")
    : keyOf(given.key ?? environment["RATCHET_KEY"] ?? "");
  const agent = agentName(
    given.agent || environment["RATCHET_AGENT"] || environment["OTEL_SERVICE_NAME"] || script(),
  );
  const told = environment["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] ?? "";
  return {
    agent,
    server,
    key,
    attempt,
    content: given.captureContent ?? true,
    contentForAll: endpoint === server || /^(true|1|span_only|span_and_event)$/i.test(told.trim()),
    releases: !inRollout && (given.releases ?? true) && !isOn(environment["RATCHET_OWN_SOURCE"]),
    state: stateFolder(environment),
    recorded: inRollout ? gatewayProviders(environment) : [],
    redact,
  };
}

/** Whether a variable switches something on. */
export function isOn(value: string | undefined): boolean {
  return /^(1|true|yes|on)$/i.test((value ?? "").trim());
}

/** Name of the file that keeps an agent's releases of a server, as `ratchet` in Python names it. */
export function bundleName(settings: Settings): string {
  const hash = createHash("sha256").update(settings.server).digest("hex");
  return `${settings.agent}-${hash.slice(0, 8)}.json`;
}

/**
 * A valid agent name: Latin letters without accents, digits, `.`, `_` and `-`, at most 100 characters. Where letters of
 * another script are left out, a hash of them keeps two names apart, as in Python.
 */
export function agentName(name: string): string {
  const text = [...name].slice(0, 500).join("").normalize("NFKD").replace(/\p{M}/gu, "");
  const made = text.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 100).replace(/^-+|-+$/g, "");
  const lost = text.replace(/[\p{ASCII}]|[^\p{L}\p{N}]/gu, "");
  if (!lost) return made || "agent";
  return `${made.slice(0, 93) || "agent"}-${createHash("sha256").update(lost).digest("hex").slice(0, 6)}`;
}

function addressOf(given: string): string {
  const form = "Write it as http://HOST:PORT or https://HOST.";
  const text = given.trim();
  if (!text) {
    throw new RatchetError(
      "No server is named. Set RATCHET_URL, such as http://127.0.0.1:8765, or init({ server }).",
    );
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && (url.username || url.password)) {
    // The address is not shown, since it has a secret.
    throw new RatchetError("The server's address contains a password. Give the key by RATCHET_KEY.");
  }
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash) {
    throw new RatchetError(`The server's address is not usable: ${JSON.stringify(text)}. ${form}`);
  }
  return text.replace(/\/+$/, "");
}

function keyOf(given: string): string {
  const key = given.trim();
  if (!/^[\x21-\x7e]*$/.test(key)) {
    throw new RatchetError(
      "The key contains spaces, line breaks or characters that are not allowed in keys." +
        " Copy it again from the output of `ratchet keys create`.",
    );
  }
  return key;
}

/** Attributes of OTEL_RESOURCE_ATTRIBUTES that name the attempt. */
function attemptOf(list: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const pair of list.split(",")) {
    const [name = "", value = ""] = pair.split("=").map((part) => part.trim());
    if (name === "ratchet.rollout.id" || name === "ratchet.attempt") found[name] = decoded(value);
  }
  return found;
}

function tokenOf(headers: string): string {
  for (const pair of headers.split(",")) {
    const [name = "", value = ""] = pair.split("=").map((part) => part.trim());
    if (name.toLowerCase() === "authorization") return decoded(value).replace(/^Bearer /i, "");
  }
  return "";
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

function gatewayProviders(environment: Environment): string[] {
  const variables = { openai: "OPENAI_BASE_URL", anthropic: "ANTHROPIC_BASE_URL" };
  return Object.entries(variables)
    .filter(([, variable]) => environment[variable]?.includes("/gateway/"))
    .map(([provider]) => provider);
}

/** `.ratchet/` beside the nearest `ratchet.toml`, else a folder of the user's cache. */
function stateFolder(environment: Environment): string {
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "ratchet.toml"))) return join(folder, ".ratchet");
    if (folder === dirname(folder)) break;
  }
  if (process.platform === "darwin") return join(homedir(), "Library", "Caches", "ratchet");
  return join(environment["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "ratchet");
}

function script(): string {
  return basename(process.argv[1] ?? "agent").replace(/\.[cm]?[jt]sx?$/, "");
}
