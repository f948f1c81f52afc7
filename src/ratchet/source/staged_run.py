"""Runs the staged function on cases: python run.py --case cases.jsonl

A case is a line of JSON: {"args": [...], "kwargs": {...}}; for a method also "init" with the "args"
and "kwargs" of its class. For each case, one line of JSON with "value" or "error" is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Parse the command line, run the cases, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--case", default="cases.jsonl", help="file of cases; - is standard input")
    parser.add_argument("--check", action="store_true", help="only check that the function loads")
    arguments = parser.parse_args()
    staged = json.loads((HERE / "extract.json").read_text(encoding="utf-8"))["target"]
    lines = [] if arguments.check else read_lines(arguments.case)
    os.chdir(HERE)  # so that files named relative to the repository are found
    sys.path[:0] = [str(HERE / folder) for folder in staged["path"]]
    function, owner = load(staged["module"], staged["qualname"])
    if arguments.check:
        print(json.dumps({"loads": True, "callable": callable(function)}))
        return 0
    failed = 0
    for number, line in lines:
        result = run(function, owner, staged["qualname"], line)
        failed += "error" in result
        print(json.dumps({"case": number, **result}, ensure_ascii=False, default=repr), flush=True)
    return 1 if failed else 0


def read_lines(name: str) -> list[tuple[int, str]]:
    """Read the cases, numbered, without blank lines."""
    if name == "-":
        text = sys.stdin.read()
    else:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except OSError as error:
            sys.exit(f"{name} cannot be read: {error.strerror}.")
    return [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]


def load(module: str, qualname: str) -> tuple[Any, Any]:
    """Load the function as stored in its class, and that class, if any."""
    owner: Any = None
    target: Any = importlib.import_module(module)
    for part in qualname.split("."):
        owner, target = (target if isinstance(target, type) else None), getattr(target, part)
    if isinstance(target, property):
        target = target.fget
    return target, owner


def run(function: Any, owner: Any, qualname: str, line: str) -> dict[str, Any]:
    """Call the function on one case."""
    try:
        case = json.loads(line)
        if not isinstance(case, dict) or not case.keys() <= {"args", "kwargs", "init"}:
            raise ValueError('each case has the form {"args": [...], "kwargs": {...}}')
        called = function
        name = qualname.rpartition(".")[2]
        attribute = None if owner is None else inspect.getattr_static(owner, name)
        if inspect.isfunction(attribute) or isinstance(attribute, property):
            init = case.get("init", {})
            itself = owner(*init.get("args", []), **init.get("kwargs", {}))
            called = function.__get__(itself)
        value = called(*case.get("args", []), **case.get("kwargs", {}))
        return {"value": plain(settled(value))}
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return {"error": f"{type(error).__name__}: {error} ({where})"}


def settled(value: Any) -> Any:
    """The result of a coroutine, or the items of a generator."""
    if inspect.isawaitable(value):

        async def awaited() -> Any:
            return await value

        return asyncio.run(awaited())
    if inspect.isasyncgen(value):

        async def gathered() -> list[Any]:
            return [item async for item in value]

        return asyncio.run(gathered())
    return list(value) if isinstance(value, Iterator) else value


def plain(value: Any) -> Any:
    """Convert a value to JSON types, or to its repr."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item) for item in value]
        return repr(value)
    return value


if __name__ == "__main__":
    sys.exit(main())
