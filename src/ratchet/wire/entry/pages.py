"""Calls a page of Streamlit through the fields that a person fills in."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath

from ratchet.wire.entry.adapter import AgentAdapter, CannotCall, call_lines
from ratchet.wire.entry.python_file import PythonFile, dotted
from ratchet.wire.entry.site import Site

SERVED = "streamlit run "
"""How the call of an entry begins that is a page."""

_TEXTS = ("text_input", "text_area")
_OTHERS = {
    "number_input": "float",
    "slider": "float",
    "selectbox": "str",
    "radio": "str",
    "select_slider": "str",
    "multiselect": "list",
    "checkbox": "bool",
    "toggle": "bool",
}
_KEYS = re.compile(
    r"(?i)\b(?:api|access|secret)?[ _-]?(?:key|token|password|secret|credential)s?\b"
)
_BUTTONS = ("button", "form_submit_button")


def call_page(site: Site) -> AgentAdapter:
    """An adapter that fills in a page of Streamlit and returns what it shows then.

    Raises:
        CannotCall: No such page leads to the entry, or it needs more than fields and a button.
    """
    file = _page(site)
    if file is None:
        raise CannotCall(f"{site.entry.name} is no page of Streamlit")
    widgets = [one for one in ast.walk(file.tree) if isinstance(one, ast.Call)]
    widgets.sort(key=lambda one: (one.lineno, one.col_offset))
    inner = PurePosixPath(file.path).relative_to(site.modules.project)
    made = f"StreamlitPage(Path(__file__).parent / {_quoted(inner.as_posix())})"
    chat = any(_kind(one) == "chat_input" for one in widgets)
    if chat:
        parameters, given = ["question: str"], ["say=question"]
    else:
        parameters, fields = _fields(file, widgets)
        button = _button(site, file, widgets)
        given = ["{" + ", ".join(fields) + "}"]
        if len(given[0]) > 80:
            given[0] = "\n        ".join(["{", *(f"{one}," for one in fields)]) + "\n    }"
        given += [f"press={_quoted(button)}"] if button else []
    says = f"Uses the page {file.path} as a person does: fills it in and reads what it shows."
    return AgentAdapter(
        name=site.function_name({"PAGE", "Path", *(one.partition(":")[0] for one in parameters)}),
        parameters=tuple(parameters),
        returns="str",
        assumes=says + " Fields for keys are filled from the environment.",
        body=tuple("\n".join(call_lines("return PAGE.use(", given)).splitlines()),
        imports=(
            "from pathlib import Path",
            "from ratchet.worker.streamlit_page import StreamlitPage",
        ),
        before=(f"PAGE = {made}",),
        runs=(file.path,),
    )


def _page(site: Site) -> PythonFile | None:
    """The script that Streamlit serves: the entry's, or the one that imports its file."""
    served = [
        one.place.path
        for one in site.look.entries
        if one.call.startswith(SERVED)
        and PurePosixPath(one.place.path).is_relative_to(site.modules.project)
        and site.entry.place.path in site.modules.closure(one.place.path)
    ]
    own = site.entry.place.path
    path = own if own in served else next(iter(served), None)
    return site.modules.file(path) if path else None


def _kind(call: ast.Call) -> str:
    """The widget that a call of `st`, of a column or of the side bar makes."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _label(call: ast.Call) -> str | None:
    found = next((one.value for one in call.keywords if one.arg == "label"), None)
    found = found or next(iter(call.args), None)
    if isinstance(found, ast.Constant) and isinstance(found.value, str):
        return found.value
    return None


def _fields(file: PythonFile, widgets: list[ast.Call]) -> tuple[list[str], list[str]]:
    """Parameters of the adapter, and the items of the dictionary from labels to them."""
    required: dict[str, str] = {}
    optional: dict[str, str] = {}
    uploaded = [
        block
        for call in widgets
        if _kind(call) == "file_uploader"
        for block in _blocks(file, call)
        if not isinstance(block.test, ast.UnaryOp)
    ]
    for call in widgets:
        kind, label = _kind(call), _label(call)
        if kind not in _OTHERS and kind not in _TEXTS:
            continue
        if label is None or _is_secret(call, label):
            continue
        if any(one.lineno <= call.lineno <= (one.end_lineno or 0) for one in uploaded):
            raise CannotCall(f"the page {file.path} wants a file that a person uploads")
        name = _assigned(file, call) or re.sub(r"\W+", "_", label).strip("_").lower()[:40]
        if not name.isidentifier() or name in required or name in optional:
            continue
        filled = len(call.args) > 1 or any(one.arg == "value" for one in call.keywords)
        if kind in _TEXTS and not filled:
            required[name] = label
            continue
        annotation = "str" if kind in _TEXTS else _OTHERS[kind]
        optional[f"{name}: {annotation} | None = None"] = label
    if not required and not optional:
        raise CannotCall(f"the page {file.path} has no field and no chat that a task could fill in")
    declared = [f"{name}: str" for name in required] + list(optional)
    labels = {**required, **{one.partition(":")[0]: two for one, two in optional.items()}}
    return declared, [f"{_quoted(label)}: {name}" for name, label in labels.items()]


def _is_secret(call: ast.Call, label: str) -> bool:
    hidden = any(
        one.arg == "type" and isinstance(one.value, ast.Constant) and one.value.value == "password"
        for one in call.keywords
    )
    return hidden or _KEYS.search(label) is not None


def _assigned(file: PythonFile, call: ast.Call) -> str:
    """The variable that holds what a person fills in."""
    for one in ast.walk(file.tree):
        if isinstance(one, ast.Assign | ast.NamedExpr) and one.value is call:
            target = one.targets[0] if isinstance(one, ast.Assign) else one.target
            return target.id if isinstance(target, ast.Name) else ""
    return ""


def _button(site: Site, file: PythonFile, widgets: list[ast.Call]) -> str | None:
    """The button below which a model is called; None for a page without buttons."""
    lines = [one.place.line for one in site.look.model_calls if one.place.path == file.path]
    own = {
        one.name.rpartition(".")[2]
        for one in site.look.entries
        if one.kind in ("function", "graph", "crew", "agent")
    }
    labels: list[str] = []
    for call in widgets:
        if _kind(call) not in _BUTTONS:
            continue
        label = _label(call)
        if label is None:
            continue
        labels.append(label)
        for block in _blocks(file, call):
            reached = range(block.lineno, (block.end_lineno or block.lineno) + 1)
            inner = [
                dotted(one.func).rpartition(".")[2]
                for statement in block.body
                for one in ast.walk(statement)
                if isinstance(one, ast.Call)
            ]
            if any(line in reached for line in lines) or own & set(inner):
                return label
    return labels[-1] if labels else None


def _blocks(file: PythonFile, button: ast.Call) -> list[ast.If]:
    """The `if` statements that ask whether a button was pressed, or a file is there."""
    name = _assigned(file, button)
    found = []
    for one in ast.walk(file.tree):
        if not isinstance(one, ast.If):
            continue
        asked = list(ast.walk(one.test))
        named = any(isinstance(each, ast.Name) and each.id == name for each in asked)
        if button in asked or (name and named):
            found.append(one)
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
