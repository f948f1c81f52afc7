"""Begins the recording of this process."""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import sys
from typing import Any

from . import carrying, clients, values
from .acts import Acts
from .journal import EventJournal, harmless, quiet
from .patches import Patcher, after_import
from .stacks import Stacks

SETTINGS = "settings.json"


def begin(folder: str) -> None:
    """Record this process from now on; without its folder nothing is done.

    Args:
        folder: Where the recorder put its settings, and reads journals.
    """
    try:
        with open(os.path.join(folder, SETTINGS), encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError):
        return
    with quiet():
        journal = EventJournal(folder)
        stacks = Stacks(settings["root"], journal)
        journal.write(
            "start",
            pid=os.getpid(),
            parent=os.getppid(),
            executable=sys.executable,
            version=sys.version.split()[0],
            sdk=_has_sdk(),
        )
        _restore_variables(settings["set"])
        carrying.carry(stacks)
        prepare = carrying.constructors(stacks, functools.partial(_constructed, stacks))
        prepare(sys.modules["__main__"])

        def loaded(module: Any) -> None:
            # At once: a service that a signal ends writes nothing at its end.
            journal.write("module", file=stacks.file(module.__file__ or ""))
            prepare(module)

        sys.meta_path.insert(0, Patcher(stacks.file, loaded))
        watched = clients.Watched(stacks, journal, settings["relay"], settings["simulated"])
        clients.watch(watched)
        _keep_in_children(settings)
        atexit.register(_end, journal)
        Acts(stacks, journal, folder).watch()


def _restore_variables(names: dict[str, Any]) -> None:
    """Take back what leads programs in other languages to the relay: here the clients are led."""
    for name, (value, before) in names.items():
        if os.environ.get(name) == value:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def _keep_in_children(settings: dict[str, Any]) -> None:
    """Programs that are started from here are recorded too, whatever environment they get."""

    @after_import("subprocess")
    def children(module: Any) -> None:
        start = module.Popen.__init__
        signature = inspect.signature(start)

        @functools.wraps(start)
        def watched_start(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(self, *args, **kwargs)
            except TypeError:
                start(self, *args, **kwargs)
                return
            with quiet():
                environment = bound.arguments.get("env")
                environ = dict(os.environ) if environment is None else dict(environment)
                for name, (value, before) in settings["set"].items():
                    if environ.get(name) == before:
                        environ[name] = value
                for name in ("RATCHET_RECORDING", "NODE_OPTIONS", "BUN_OPTIONS"):
                    if name in settings["hooks"]:
                        environ.setdefault(name, settings["hooks"][name])
                paths = environ.get("PYTHONPATH", "").split(os.pathsep)
                hook = settings["hooks"]["PYTHONPATH"]
                if hook not in paths:
                    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [hook, *paths]))
                bound.arguments["env"] = environ
            start(*bound.args, **bound.kwargs)

        module.Popen.__init__ = watched_start


@harmless()
def _constructed(stacks: Stacks, function: Any, owner: Any, args: Any, kwargs: Any) -> Any:
    """The frame of a constructor, from its arguments."""
    with quiet():
        code = function.__code__
        try:
            signature = inspect.signature(function)
            bound = signature.bind(owner, *args, **kwargs)
            passed = dict(bound.arguments)
            bound.apply_defaults()
        except (TypeError, ValueError):
            return None
        arguments = []
        for name, value in list(bound.arguments.items())[1:]:
            stars = {2: "*", 4: "**"}.get(int(signature.parameters[name].kind), "")
            arguments.append(
                {
                    "name": stars + name,
                    **values.copied(value, name),
                    "is_default": name not in passed,
                    "rebound": False,
                }
            )
        return {
            "file": stacks.file(code.co_filename),
            "module": function.__module__,
            "line": code.co_firstlineno,
            "function": function.__qualname__,
            "type": "function",
            "arguments": arguments,
        }


def _end(journal: EventJournal) -> None:
    journal.write("end", path=[path for path in sys.path if path])


def _has_sdk() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("ratchet") is not None
    except (ImportError, ValueError):
        return False
