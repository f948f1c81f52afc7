/** `init`: starts to record what the agent of this process does. */

import { ROOT_CONTEXT } from "@opentelemetry/api";
import { Chooser } from "./chooser";
import { RatchetError, warnOnce } from "./errors";
import { sendAtExit } from "./exit";
import { passFeedback } from "./feedback";
import { Follower } from "./follower";
import { Connection } from "./http";
import { Outbox, type Counts } from "./outbox";
import { processor } from "./processor";
import { connect, type Connected } from "./provider";
import { rollout } from "./rollout";
import { redactedFeedback } from "./redaction";
import { isOn, settingsOf, type InitOptions, type Settings } from "./settings";
import { record } from "./step";

const FLUSH_MS = 5_000;

/** What is recorded, and where it goes. */
export interface Status extends Counts {
  readonly on: boolean;
  readonly agent: string;
  readonly server: string;
}

/** What `init` returns. */
export interface Handle {
  /**
   * Sends the spans that have ended and the feedback that was given.
   *
   * @param timeoutMs Longest time to wait, in milliseconds; 5,000 when left out.
   * @returns Whether all of it is stored now. The rest is sent later.
   */
  flush(timeoutMs?: number): Promise<boolean>;
  /**
   * Waits until the agent's release has been read, for a program that runs only once. The agent
   * need not wait: it begins with the release read last, or with its own source.
   *
   * @param timeoutMs Longest time to wait, in milliseconds; 2,000 when left out.
   */
  ready(timeoutMs?: number): Promise<void>;
  /** Sends what is left and stops recording; `init` may follow again. */
  shutdown(timeoutMs?: number): Promise<void>;
  /** Counts so far. */
  status(): Status;
}

let handle: Recorder | undefined;

/**
 * Records what the agent of this process does, and follows its releases. Never throws, and never
 * makes the agent wait. A second call returns the same handle. RATCHET_DISABLED=1 switches it off.
 *
 * @example
 * import { init } from "agent-ratchet";
 * init({ agent: "booking", server: "http://127.0.0.1:8765" });
 */
export function init(options: InitOptions = {}): Handle {
  if (handle) return handle;
  if (isOn(process.env["RATCHET_DISABLED"])) return OFF;
  try {
    const settings = settingsOf(options, process.env, rollout !== undefined);
    handle = new Recorder(settings, () => (handle = undefined));
    return handle;
  } catch (error) {
    // A rollout whose server takes no spans is none of the program's mistakes.
    const quiet = rollout && error instanceof RatchetError;
    if (!quiet) warnOnce(`Nothing is recorded. ${error instanceof Error ? error.message : String(error)}`);
    return OFF;
  }
}

class Recorder implements Handle {
  readonly #connection: Connection;
  readonly #outbox: Outbox;
  readonly #provider: Connected;
  readonly #follower: Follower | undefined;
  readonly #offExit: () => void;

  constructor(
    private readonly settings: Settings,
    private readonly ended: () => void,
  ) {
    const { server, key, agent, attempt, recorded, redact } = settings;
    this.#connection = new Connection(server, key);
    const sender = { "telemetry.sdk.language": "nodejs", ...attempt, "service.name": agent };
    this.#outbox = new Outbox(this.#connection, sender, redact);
    this.#provider = connect(rollout?.root ?? ROOT_CONTEXT);
    const chooser = settings.releases ? new Chooser() : undefined;
    this.#follower = chooser && new Follower(settings, this.#connection, chooser);
    const outbox = this.#outbox;
    processor.sink = {
      addSpan: (span) => outbox.addSpan(span),
      flush: (timeoutMs) => outbox.flush(timeoutMs),
      recorded,
    };
    passFeedback((item) => outbox.addFeedback(redactedFeedback(redact, item)));
    record({
      tracer: this.#provider.tracer,
      content: settings.content,
      contentForAll: settings.contentForAll,
      chooser,
    });
    this.#offExit = sendAtExit(outbox, this.#connection);
  }

  flush(timeoutMs = FLUSH_MS): Promise<boolean> {
    return this.#outbox.flush(timeoutMs);
  }

  async ready(timeoutMs = 2_000): Promise<void> {
    if (!this.#follower) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, timeoutMs)));
    await Promise.race([this.#follower.first, late]);
    clearTimeout(timer);
  }

  async shutdown(timeoutMs = FLUSH_MS): Promise<void> {
    if (processor.sink === undefined) return;
    record(undefined);
    passFeedback(undefined);
    processor.sink = undefined;
    this.#follower?.close();
    this.#provider.disconnect();
    this.#offExit();
    this.ended();
    await this.#outbox.flush(timeoutMs);
    this.#outbox.close(false);
    this.#connection.close();
  }

  status(): Status {
    const { agent, server } = this.settings;
    return { on: processor.sink !== undefined, agent, server, ...this.#outbox.counts() };
  }
}

const OFF: Handle = {
  flush: () => Promise.resolve(true),
  ready: () => Promise.resolve(),
  shutdown: () => Promise.resolve(),
  status: () => ({ on: false, agent: "", server: "", sent: 0, waiting: 0, dropped: 0 }),
};
