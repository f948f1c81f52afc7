"""`python -m tests.simulator`: the simulator in the foreground."""

from __future__ import annotations

import argparse
import json

import uvicorn
import uvloop

from tests.simulator import coach, task_model
from tests.simulator.running import config, listen
from tests.simulator.server import Settings, Simulator, to_stderr


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulator",
        description="A simulator of a task model and a coach behind OpenAI's chat completions.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--seed", default="0", help="of everything that is left to chance")
    parser.add_argument("--latency-ms", type=float, default=0.0, help="of the task model")
    parser.add_argument("--coach-latency-ms", type=float, help="as --latency-ms when left out")
    parser.add_argument("--jitter", type=float, default=0.0, help="share by which latency varies")
    parser.add_argument("--noise", type=float, default=1.0, help="factor of lapses of attention")
    parser.add_argument("--error-rate", type=float, default=0.0, help="share of 429, 500 and 503")
    parser.add_argument("--key", default="", help="the key that callers must have")
    parser.add_argument("--json", action="store_true", help="say where it is as a JSON object")
    parser.add_argument("--log", action="store_true", help="write a line for each request")
    given = parser.parse_args()
    settings = Settings(
        seed=given.seed,
        latency_ms=given.latency_ms,
        coach_latency_ms=given.coach_latency_ms,
        jitter=given.jitter,
        noise=given.noise,
        error_rate=given.error_rate,
        key=given.key,
    )
    listening = listen(given.host, given.port)
    root = f"http://{given.host}:{listening.getsockname()[1]}"
    if given.json:
        print(json.dumps({"root": root, "base_url": f"{root}/v1"}), flush=True)
    else:
        names = f"{task_model.MODEL} and {coach.MODEL}"
        print(f"simulator of {names} (no real models) at {root}/v1", flush=True)
    app = Simulator(settings, to_stderr if given.log else None)
    uvloop.run(uvicorn.Server(config(app)).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
