"""Reads the standard library of the running interpreter into documents: one a function or class."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import inspect
import io
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# Importing these opens a browser or a window, prints, or loads a test suite or an editor.
NOISY = {"antigravity", "this", "idlelib", "test", "turtledemo", "lib2to3", "ensurepip"}

# One codec or platform each, all of the same shape: they would crowd out the answers.
REPETITIVE = {"encodings", "pydoc_data", "distutils"}

# Modules that Python 3.12 or 3.13 removed: advice that stops working is no advice.
REMOVED = set(
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt imghdr imp mailcap msilib nis nntplib "
    "ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib".split()
)

# Known to people under another name: os.path, os, re, urllib.request.
ALIASES = set(
    "posixpath ntpath genericpath posix nt nturl2path sre_compile sre_constants sre_parse".split()
)

SKIPPED = NOISY | REPETITIVE | REMOVED | ALIASES

# Objects with two names, where people use the one that is not in their `__name__`.
KNOWN_AS = set(
    "bisect.bisect bisect.insort re.error selectors.DefaultSelector unittest.main weakref.ref "
    "xml.etree.ElementTree.fromstring".split()
)

# A text such as <object object at 0x7f…> differs from run to run, and a default value such as
# [<weakref; to 'StreamHandler'>] with what else was imported.
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
OBJECTS = re.compile(r"<(?:[^<>]|<\w+>)*>(?:, <(?:[^<>]|<\w+>)*>)*")


@dataclass(frozen=True)
class Document:
    """What the library says about one of its functions or classes."""

    name: str
    """The name under which people use it: `os.path.join`, `collections.Counter`, `sorted`."""
    kind: str
    """`function`, `class` or `exception`."""
    module: str
    """The module it is imported from."""
    about: str
    """The first line of that module's docstring."""
    signature: str
    """Its signature, or an empty text where the interpreter knows none."""
    summary: str
    """The first line of its docstring."""
    details: str
    """The rest of its docstring."""
    members: str
    """For a class, its public methods with the first line of each one's docstring."""


def read_library() -> list[Document]:
    """Reads every public function and class of the standard library, sorted by name."""
    found: dict[int, tuple[Any, list[tuple[str, str]]]] = {}
    abouts: dict[str, str] = {}
    with _silence():
        for path in _module_paths():
            module = _import(path)
            if module is None:
                continue
            abouts[path] = _split(_own_doc(module))[0]
            for attribute, value in _public(module):
                found.setdefault(id(value), (value, []))[1].append((path, attribute))
        documents = [_document(value, places, abouts) for value, places in found.values()]
    return sorted(documents, key=lambda document: document.name)


def _module_paths() -> Iterator[str]:
    yield "builtins"
    yield "os.path"
    for top in sorted(sys.stdlib_module_names):
        if top.startswith("_") or top in SKIPPED or top == "builtins":
            continue
        yield top
        yield from _submodules(top)


def _submodules(package: str) -> Iterator[str]:
    module = _import(package)
    for entry in pkgutil.iter_modules(getattr(module, "__path__", [])):
        # A folder of tests or a private module is nobody's import.
        if entry.name.startswith("_") or entry.name in {"test", "tests"}:
            continue
        # Importing curses.has_key would put that module in the place of the function of that name.
        if _is_documented(getattr(module, entry.name, None)):
            continue
        yield f"{package}.{entry.name}"
        if entry.ispkg:
            yield from _submodules(f"{package}.{entry.name}")


def _import(path: str) -> ModuleType | None:
    # Modules of another platform raise many things, and a script may even exit.
    try:
        return importlib.import_module(path)
    except (Exception, SystemExit):
        return None


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    listed = getattr(module, "__all__", None)
    below = f"{module.__name__}."
    # A listed name may be made only when asked for: concurrent.futures.ThreadPoolExecutor.
    for attribute in sorted({*vars(module), *(listed or ())}):
        value = getattr(module, attribute, None)
        if attribute.startswith("_") or not _is_documented(value):
            continue
        # A package's list may lack what it gathers from its modules: asyncio.TaskGroup in 3.11.
        if listed is None or attribute in listed or _home(value).startswith(below):
            yield attribute, value


def _is_documented(value: Any) -> bool:
    return inspect.isroutine(value) or inspect.isclass(value)


def _home(value: Any) -> str:
    """The module in which an object says it was defined, an empty text when it does not say."""
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else ""


def _document(value: Any, places: list[tuple[str, str]], abouts: dict[str, str]) -> Document:
    module, attribute = min(places, key=lambda place: _distance_from_home(value, place))
    signature, doc = _written_signature(attribute, _own_doc(value))
    summary, details = _split(doc)
    return Document(
        name=attribute if module == "builtins" else f"{module}.{attribute}",
        kind=_kind(value),
        module=module,
        about=abouts[module],
        signature=_signature(value) or signature,
        summary=summary,
        details=details,
        members=_members(value) if inspect.isclass(value) else "",
    )


def _distance_from_home(value: Any, place: tuple[str, str]) -> tuple[bool | int | str, ...]:
    """Orders the places that export one object: the one that people import from comes first."""
    module, attribute = place
    path = f"{module}.{attribute}"
    home = _home(value).lstrip("_")
    return (
        path not in KNOWN_AS,
        attribute != getattr(value, "__name__", attribute),
        module != "builtins",
        home != module and not home.startswith(f"{module}."),
        path.count("."),
        len(path),
        path,
    )


def _kind(value: Any) -> str:
    if not inspect.isclass(value):
        return "function"
    return "exception" if issubclass(value, BaseException) else "class"


def _signature(value: Any) -> str:
    try:
        return OBJECTS.sub("...", str(inspect.signature(value)))
    except (ValueError, TypeError):
        return ""


def _written_signature(name: str, doc: str) -> tuple[str, str]:
    """Parts a docstring that opens with signatures, as those of C functions do, from the rest."""
    lines = doc.splitlines()
    opening = 0
    while opening < len(lines) and lines[opening].startswith(f"{name}("):
        opening += 1
    return " ".join(lines[:opening]), "\n".join(lines[opening:])


def _members(value: type[Any]) -> str:
    lines = []
    for name, member in sorted(vars(value).items()):
        if not name.startswith("_") and (callable(member) or isinstance(member, classmethod)):
            lines.append(f"{name} {_split(_own_doc(member))[0]}".strip())
    return "\n".join(lines)


def _own_doc(value: Any) -> str:
    """The docstring written for this object: an inherited one describes something else."""
    doc = vars(value).get("__doc__") if inspect.isclass(value) else getattr(value, "__doc__", None)
    return ADDRESS.sub("", inspect.cleandoc(doc)) if isinstance(doc, str) else ""


def _split(doc: str) -> tuple[str, str]:
    first, _, rest = doc.strip().partition("\n")
    return first.strip(), rest.strip()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps what modules print or warn while they are imported away from the user."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def exists(name: str) -> bool:
    """Whether a dotted name (or the bare name of a builtin) resolves in this interpreter."""
    module, _, attribute = name.rpartition(".")
    if not module:
        return hasattr(builtins, name)
    found = os.path if module == "os.path" else _import(module)
    return hasattr(found, attribute)
