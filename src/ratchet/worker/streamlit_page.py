"""Uses a Streamlit page as a person does: fills it in, presses a button, reads what it shows."""

from __future__ import annotations

import ast
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ratchet.bind import registry
from ratchet.types import Declaration, InputError, PromptTemplate

_FIELDS = (
    "text_input",
    "text_area",
    "number_input",
    "selectbox",
    "radio",
    "slider",
    "select_slider",
    "multiselect",
    "checkbox",
    "toggle",
)
_SHOWN = ("markdown", "text", "code", "json", "latex", "success", "info", "metric", "html")
_SECRET = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)$")
_ONE_AT_A_TIME = threading.Lock()
"""Streamlit's test runner replaces objects that belong to the process."""


class PageFailed(Exception):
    """The page showed an error, or has no such field or button."""


class StreamlitPage:
    """A Streamlit script whose page is used without a browser or a server.

    The script runs in this process under Streamlit's own `AppTest`, from its first line to its last
    at every use. The prompts that it declares with a literal text are known before it runs.

    Args:
        path: The script.

    Raises:
        InputError: It cannot be read, or is no Python.

    Example:
        >>> PAGE = StreamlitPage("travel.py")  # doctest: +SKIP
        >>> PAGE.use({"Where do you want to go?": "Rome"}, press="Plan")  # doctest: +SKIP
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        for name, template, line in _declared(self.path):
            registry.declare(
                name,
                registry.DeclarationSite(str(self.path), "prompt", line=line),
                partial(Declaration, name, template, str(self.path), line),
            )

    def use(
        self,
        fields: Mapping[str, Any] | None = None,
        *,
        press: str | None = None,
        say: str | None = None,
        limit_s: float = 900.0,
    ) -> str:
        """Fill in the page, and return the text that it then shows.

        Fields for keys take the environment variable whose words stand in their label:
        "Enter your OpenAI API key" takes `OPENAI_API_KEY`.

        Args:
            fields: Values by the label of their field; None leaves a field as the page has it.
            press: Label of the button that is pressed then.
            say: What is written in the page's chat.
            limit_s: Seconds that the script may run, each time that it runs.

        Raises:
            PageFailed: The script raised an error or showed one instead of an answer, or the page
                has no field or button of that label.
        """
        from streamlit.testing.v1 import AppTest

        with _ONE_AT_A_TIME:
            page = AppTest.from_file(str(self.path), default_timeout=limit_s)
            _run(page)
            if _fill_keys(page):
                _run(page)
            _fill(
                page, {name: value for name, value in (fields or {}).items() if value is not None}
            )
            before = Counter(_texts(page))
            if say is not None:
                answer = _chat(page, say)
                if answer:
                    return answer
            elif press is not None:
                _press(page, press)
            else:
                before.clear()
            new = Counter(_texts(page)) - before
            new_texts = [text for text in _texts(page) if new[text] > 0]
            if not new_texts:
                raise PageFailed(f"The page shows no answer. {_says(page)}")
            return "\n\n".join(dict.fromkeys(new_texts))


def _declared(path: Path) -> Iterator[tuple[str, PromptTemplate, int]]:
    """Prompts that a script declares with a literal text: name, template, line."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"The page {path} cannot be read: {error}.") from None
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "ratchet.prompt":
            continue
        arguments = dict(zip(("name", "default"), call.args, strict=False))
        arguments |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        try:
            values = {name: ast.literal_eval(node) for name, node in arguments.items()}
            template = PromptTemplate(values["default"], values.get("engine", "f-string"))
        except (ValueError, KeyError, TypeError):
            continue  # declared when the script runs
        yield values["name"], template, call.lineno


def _run(page: Any) -> None:
    page.run()
    if page.exception:
        first = page.exception[0]
        raise PageFailed(f"The page failed: {first.message or first.value}")


def _fill_keys(page: Any) -> bool:
    """Enter keys from the environment into the fields that ask for them."""
    filled = False
    for field in page.text_input:
        words = {word.upper() for word in re.findall(r"[A-Za-z]+", field.label)}
        secret = field.proto.type == field.proto.PASSWORD or {"API", "KEY"} <= words
        if not secret or field.value:
            continue
        for name, value in os.environ.items():
            if _SECRET.search(name) and set(name.upper().split("_")) <= words:
                field.set_value(value)
                filled = True
                break
    return filled


def _fill(page: Any, fields: Mapping[str, Any]) -> None:
    """Fill in fields; some appear only when others are filled in."""
    left = dict(fields)
    while left:
        visible = {label: field for label in left if (field := _field(page, label)) is not None}
        if not visible:
            raise PageFailed(f"The page has no field {next(iter(left))!r}. {_says(page)}")
        for label, field in visible.items():
            field.set_value(left.pop(label))
        _run(page)


def _field(page: Any, label: str) -> Any:
    for kind in _FIELDS:
        for field in page.get(kind):
            if field.label == label:
                return field
    return None


def _press(page: Any, label: str) -> None:
    for button in page.button:
        if button.label == label:
            button.click()
            _run(page)
            return
    raise PageFailed(f"The page has no button {label!r}. {_says(page)}")


def _texts(page: Any) -> Iterator[str]:
    for node in page.main:
        if node.type in _SHOWN and isinstance(getattr(node, "value", None), str):
            yield node.value


def _chat(page: Any, message: str) -> str:
    chats = list(page.chat_input)
    if not chats:
        raise PageFailed(f"The page has no chat. {_says(page)}")
    chats[0].set_value(message)
    _run(page)
    return _answers(page)


def _answers(page: Any) -> str:
    """The last message of the chat that is not the user's."""
    for message in reversed(list(page.chat_message)):
        if message.name not in ("user", "human"):
            return "\n\n".join(
                node.value
                for node in message
                if node.type in _SHOWN and isinstance(getattr(node, "value", None), str)
            )
    return ""


def _says(page: Any) -> str:
    """The page's notices, for an error message."""
    notices = [notice.value for kind in ("error", "warning", "info") for notice in page.get(kind)]
    return f"It says: {' '.join(notices)[:300]}" if notices else "It shows no error."
