"""Pages of Streamlit, Gradio and Chainlit: scripts that a command of their own serves."""

from __future__ import annotations

from collections.abc import Iterator

from ratchet.wire.facts import EntryPoint, Place
from ratchet.wire.looking.names import Names

_SERVED = {
    "streamlit": "streamlit run",
    "chainlit": "chainlit run",
    "gradio": "python",
    "panel": "panel serve",
    "mesop": "mesop",
}
"""Command by the module that a page imports."""


def find_apps(names: Names, live: frozenset[str], calling: set[str]) -> Iterator[EntryPoint]:
    """Pages that lead to a model, unless another module imports them.

    Args:
        names: Names of the program.
        live: Files that belong to the agent.
        calling: Files that call a model.
    """
    program = names.program
    pages = {
        module.path: served
        for module in program.modules
        if module.path in live and not module.notebook
        for one in module.imports
        if (served := _SERVED.get(one.module.partition(".")[0]))
        and program.resolve(module, one) is None
    }
    if not pages:
        return
    loaded = {
        path for module in program.modules if module.path in live for path in program.loads(module)
    }
    for path, command in sorted(pages.items()):
        if path in loaded or not calling & program.closure([path]):
            continue
        module = program.module(path)
        framework = next(iter(program.frameworks_of(module)), "") if module is not None else ""
        yield EntryPoint(
            path,
            "script",
            Place(path, 1),
            f"{command} {path}",
            (),
            "",
            framework,
            0.7,
            f"a page that {command.split()[0]} serves; it leads to a model",
        )
