"""Runs the agent as a command for each task, or sends tasks to where it runs."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from ratchet.wire.entry.adapter import CannotCall
from ratchet.wire.entry.python_file import Function, PythonFile, dotted
from ratchet.wire.entry.site import Site, is_text_name
from ratchet.wire.facts import RepositoryLook

_BASE_URLS = re.compile(r"(?:BASE_?URL|API_?BASE|ENDPOINT|_URL|_HOST)$")
_MODELS = re.compile(r"OPENAI|ANTHROPIC|CLAUDE|LLM|MODEL|GPT|OPENROUTER|GROQ|MISTRAL|DEEPSEEK")
_KNOWN_URLS = {"OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL"}
_KNOWN_KEYS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
_KEYS = re.compile(r"(?:KEY|TOKEN)$")


def model_variables(look: RepositoryLook, texts: list[str]) -> dict[str, Any]:
    """`model_base_url` and `model_key`: variables of the code that lead its clients to a model."""
    names: set[str] = {one.name for one in look.secrets if one.kind == "variable"}
    for text in texts:
        names |= set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", text))
    urls = sorted(
        one
        for one in names
        if _BASE_URLS.search(one) and _MODELS.search(one) and one not in _KNOWN_URLS
    )
    keys = sorted(
        one for one in names if _KEYS.search(one) and _MODELS.search(one) and one not in _KNOWN_KEYS
    )
    config: dict[str, Any] = {}
    if urls:
        config["model_base_url"] = urls
    if keys:
        config["model_key"] = keys
    return config


def command_source(site: Site) -> str:
    """A program that gives one task to a script: as its arguments, or as what a person types.

    Raises:
        CannotCall: How the script takes its input is not known.
    """
    script = site.file.path
    if site.choices.project != ".":
        script = script.removeprefix(f"{site.choices.project}/")
    typer = _typer_program(site.file)
    options = typer[1] if typer else _options(site.file)
    argument = "\n".join(
        (
            '"""Gives one task of Ratchet to the program; what it prints is the output."""',
            "",
            "import json",
            "import subprocess",
            "import sys",
            "",
            'given = json.load(sys.stdin)["input"]',
        )
    )
    run = f'command = [sys.executable, "{script}"'
    if typer or site.entry.kind == "program":
        started = typer[0] if typer else site.entry.name
        run = f"command = [sys.executable, \"-c\", '{_start(site, started)}'"
    if options is not None:
        positional, named = options
        if not positional and not named:
            raise CannotCall(f"{script} takes no arguments")
        lines = [argument]
        names = [*(one for one, _ in positional), *(one for _, one in named)]
        first = next((one for one in names if is_text_name(one)), names[0])
        lines.append(f'values = given if isinstance(given, dict) else {{"{first}": given}}')
        parts = [
            f'str(values.get("{one}", {default}))' if default else f'str(values["{one}"])'
            for one, default in positional
        ]
        lines.append(f"{run}{''.join(', ' + one for one in parts)}]")
        for flag, name in named:
            lines.append(f'if "{name}" in values:')
            lines.append(f'    command += ["{flag}", str(values["{name}"])]')
        lines.append("sys.exit(subprocess.run(command, stdin=subprocess.DEVNULL).returncode)")
        return "\n".join(lines) + "\n"
    text = site.file.data.decode(errors="replace")
    if "sys.argv" in text:
        return f"{argument}\n{run}, str(given)]\n" + (
            "sys.exit(subprocess.run(command, stdin=subprocess.DEVNULL).returncode)\n"
        )
    if re.search(r"\binput\s*\(", text):
        return (
            f"{argument}\n{run}]\n"
            "# After one line of input there is no more: the program must end.\n"
            'sys.exit(subprocess.run(command, input=f"{given}\\n", text=True).returncode)\n'
        )
    raise CannotCall(f"{script} takes no input: no arguments, and nothing that a person types")


_Options = tuple[list[tuple[str, str]], list[tuple[str, str]]]
"""Positional arguments with the source of their default, and options with their names."""


def _start(site: Site, name: str) -> str:
    """Code that starts a program as the command of the installed package does."""
    module = site.modules.name_of(site.file.path)
    folders = [one for one in site.modules.folders([site.file.path]) if one != "."]
    path = f"import sys; sys.path[:0] = {json.dumps(folders)}; " if folders else ""
    called, _, given = name.partition(" ")
    run = f"import typer; typer.run({given})" if given else f"{called}()"
    return f"{path}from {module} import {given or called}; {run}"


def _typer_program(file: PythonFile) -> tuple[str, _Options] | None:
    """What starts a program of Typer with one command, and its options; None if it is none."""
    started = ""
    run: set[str] = set()
    for one in ast.walk(file.tree):
        call = one.value if isinstance(one, ast.Assign) else one
        name = dotted(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        if isinstance(one, ast.Assign) and name == "Typer":
            started = dotted(one.targets[0])
        elif isinstance(one, ast.Call) and dotted(one.func) == "typer.run" and one.args:
            run.add(dotted(one.args[0]))
    commands = [
        one
        for one in file.tree.body
        if isinstance(one, Function)
        and (one.name in run or (started and any(_is_command(each) for each in one.decorator_list)))
    ]
    if len(commands) != 1:
        return None
    started = started if commands[0].name not in run else f"run {commands[0].name}"
    arguments = commands[0].args.args
    defaults = dict(zip(reversed(arguments), reversed(commands[0].args.defaults), strict=False))
    positional, named = [], []
    for one in arguments:
        default = defaults.get(one)
        made = dotted(default.func).rpartition(".")[2] if isinstance(default, ast.Call) else ""
        texts = default.args if isinstance(default, ast.Call) and made else [default]
        value = texts[0] if texts else None
        plain = isinstance(value, ast.Constant) and value.value is not ...
        if "bool" in (ast.unparse(one.annotation) if one.annotation else ""):
            continue
        if default is None or made == "Argument":
            positional.append((one.arg, ast.unparse(value) if plain and value else ""))
            continue
        flags = [str(each.value) for each in texts if isinstance(each, ast.Constant)]
        flag = next((each for each in flags if each.startswith("--")), "")
        named.append((flag or f"--{one.arg.replace('_', '-')}", one.arg))
    return started, (positional, named)


def _is_command(node: ast.expr) -> bool:
    name = dotted(node.func) if isinstance(node, ast.Call) else dotted(node)
    return name.rpartition(".")[2] == "command"


def _options(file: PythonFile) -> _Options | None:
    """Positional arguments, and options with their names; None without argparse or click."""
    positional: list[tuple[str, str]] = []
    named: list[tuple[str, str]] = []
    found = False
    for one in ast.walk(file.tree):
        if not isinstance(one, ast.Call):
            continue
        last = dotted(one.func).rpartition(".")[2]
        if last not in ("add_argument", "option", "argument"):
            continue
        texts = [each.value for each in one.args if isinstance(each, ast.Constant)]
        flags = [str(each) for each in texts if str(each).startswith("-")]
        if any(each.arg == "action" or each.arg == "is_flag" for each in one.keywords):
            continue
        found = True
        if flags:
            flag = next((each for each in flags if each.startswith("--")), flags[0])
            named.append((flag, flag.lstrip("-").replace("-", "_")))
        elif texts:
            positional.append((str(texts[0]), ""))
    named.sort(key=lambda one: not is_text_name(one[1]))
    return (positional, named) if found else None


def service_url(site: Site) -> str:
    """Address of the route of an entry, where its server runs on this machine.

    Raises:
        CannotCall: The entry is no route.
    """
    method, _, path = site.entry.name.partition(" ")
    if site.entry.kind != "route" or method not in ("POST", "PUT", "ROUTE"):
        raise CannotCall(f"{site.entry.name} is no route that takes a POST")
    port = 8000
    for one in site.modules.paths:
        file = site.modules.file(one)
        for call in ast.walk(file.tree) if file else ():
            if isinstance(call, ast.Call) and dotted(call.func) in ("uvicorn.run", "app.run"):
                for given in call.keywords:
                    value = given.value.value if isinstance(given.value, ast.Constant) else None
                    if given.arg == "port" and isinstance(value, int):
                        port = value
    return f"http://127.0.0.1:{port}{_prefixes(site)}{path}"


def _prefixes(site: Site) -> str:
    """Prefixes of the routers above the route, where they stand as text in the code."""
    prefix = ""
    for node in ast.walk(site.file.tree):
        if isinstance(node, ast.Call) and dotted(node.func).endswith("APIRouter"):
            for given in node.keywords:
                if given.arg == "prefix" and isinstance(given.value, ast.Constant):
                    prefix = str(given.value.value)
    for path in site.modules.paths:
        file = site.modules.file(path)
        if file is None or site.file.path not in site.modules.imports(path):
            continue
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Call) and dotted(node.func).endswith("include_router"):
                name = dotted(node.args[0]).partition(".")[0] if node.args else ""
                found = site.modules.definition(name, path)
                if found is None or found[0].path != site.file.path:
                    continue
                for given in node.keywords:
                    if given.arg == "prefix" and isinstance(given.value, ast.Constant):
                        prefix = str(given.value.value) + prefix
    return prefix
