"""Everything that a command lacked, in one list: variables, modules, programs, hosts, files."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from ratchet.hooks.python.ratchet_recording_hook.values import is_secret_name
from ratchet.sandbox.bounded_run import run_bounded
from ratchet.source.files import SKIPPED
from ratchet.source.secret_files import is_secret
from ratchet.source.tree import SourceTree, imports_of
from ratchet.wire.recording.environment import PROVIDERS, RunEnvironment
from ratchet.wire.recording.journals import Journals
from ratchet.wire.recording.model_calls import is_loopback
from ratchet.wire.recording.outside import Outside
from ratchet.wire.recording.recording import Missing, WatchedCall

ASK_TIMEOUT_S = 30.0
"""Seconds allowed for asking an interpreter which modules it has."""
PROBE_S = 1.0
MAX_HOSTS = 20
MAX_BYTES = 1_000_000

_EXAMPLE = re.compile(r"(?=.*env)(?=.*(?:example|sample|template)).*|readme\.(?:md|rst|txt)", re.I)
"""Names of files that list the variables to set."""
_NAME = re.compile(r"(?:^\s*|\bexport\s+)([A-Z][A-Z0-9_]+)\s*=", re.MULTILINE)
_OFF = re.compile(r"^\s*#+\s*(?:export\s+)?([A-Z][A-Z0-9_]+)\s*=", re.MULTILINE)
_MENTIONED = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
_EITHER = re.compile(rf"({_MENTIONED.pattern})\W+or\W+({_MENTIONED.pattern})")
_DEFAULTED = re.compile(r"(?:getenv|environ\.get)\(\s*['\"](\w+)['\"]\s*,")
_FILE = re.compile(r"(?!.*\.env)[\w./-]+\.\w+")
_REQUIRED = re.compile(r"^(\w+)\n\s+Field required", re.MULTILINE)
_INVALID = re.compile(r"validation errors? for (\w+)")
_JAVASCRIPT = re.compile(r"process\.env(?:\.([A-Z][A-Z0-9_]+)|\[['\"]([A-Z][A-Z0-9_]+)['\"]\])")
_NODE_MODULE = re.compile(r"Cannot find (?:module|package) '([^'./][^']*)'")
_NO_FILE = re.compile(
    r"ENOENT: no such file or directory, \w+ '([^']+)'|"
    r"(?:open (\S+)|([\w./~-]*\.[\w.-]+)): (?:not found|[Nn]o such file or directory)"
)
"""The messages of Node.js, Go and shells for a file that does not exist."""
KEY = re.compile(r"(?:KEY|TOKEN|SECRET)$")
_INSTALLING = {
    "uv.lock": "uv sync",
    "poetry.lock": "poetry install",
    "requirements.txt": "{python} -m pip install -r requirements.txt",
    "pyproject.toml": "{python} -m pip install -e .",
    "setup.py": "{python} -m pip install -e .",
}
_WHICH = """
import sys, json
from importlib.util import find_spec
sys.path[:] = json.loads(sys.argv[1]) or sys.path
absent = []
for name in sys.argv[2:]:
    try:
        absent += [] if find_spec(name) else [name]
    except (ImportError, ValueError):
        absent.append(name)
print(json.dumps(absent))
"""


class Sources:
    """The needs that the repository's files state.

    Args:
        root: The repository's folder.
        argv: The command.
        loaded: Files that the run loaded, relative to the root.
    """

    def __init__(self, root: Path, argv: Sequence[str], loaded: Iterable[str] = ()) -> None:
        self._root = root
        self._tree = SourceTree(root)
        self._begun = [root / file for file in loaded] + list(self._named(argv))

    def _named(self, argv: Sequence[str]) -> Iterator[Path]:
        for word in argv:
            place = self._root / word
            if word.endswith(".py") and os.path.isfile(place):
                yield place
            elif (file := self._tree.find(word.partition(":")[0])) is not None:
                yield file
                main = file.with_name("__main__.py")
                if file.name == "__init__.py" and main.is_file():
                    yield main

    @cached_property
    def files(self) -> list[Path]:
        """Python files that the command loads, directly or not."""
        left, visited = list(self._begun), set(self._begun)
        while left:
            module = self._tree.read(left.pop())
            for file in self._tree.loads(module) if module else ():
                if file not in visited:
                    visited.add(file)
                    left.append(file)
        return sorted(visited)

    def modules(self) -> dict[str, str]:
        """Names of the imported packages, each with a sentence that says where."""
        certain: dict[str, str] = {}
        possible: dict[str, str] = {}
        for file in self.files:
            module = self._tree.read(file)
            if module is None:
                continue
            optional = set(_optional(module.tree))
            later = set(_later(module.tree))
            for imported in imports_of(module):
                name = imported.module.partition(".")[0]
                beside = file.with_name(f"{name}.py").exists() or file.with_name(name).is_dir()
                own = self._tree.find(name) or self._tree.is_folder(name) or beside
                if name and not own and imported.line not in optional:
                    at = f"{self._place(file, imported.line)} imports it"
                    if imported.line in later:
                        possible.setdefault(name, f"{at} in a function or branch.")
                    else:
                        certain.setdefault(name, f"{at}.")
        places = possible | certain
        return {name: at for name, at in places.items() if name not in sys.stdlib_module_names}

    def variables(self) -> dict[str, tuple[str, bool]]:
        """Names of variables that are read, each with a place and whether the program fails without
        it."""
        reads: dict[str, tuple[str, bool]] = {}
        for file in self.files:
            module = self._tree.read(file)
            demanded = _demanded(module.tree) if module else set()
            for node in ast.walk(module.tree) if module else ():
                name, needed = _read_variable(node)
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    needed |= re.split(" *[:=]", ast.unparse(node))[0] in demanded
                if name and (name not in reads or needed):
                    reads[name] = (self._place(file, getattr(node, "lineno", 0)), needed)
        for file, text in self._javascript:
            for match in _JAVASCRIPT.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                # `if (!process.env.NAME) throw …`
                ends = re.match(r"[^{}]*\{?[^{}]*\b(?:throw|exit)\b", text[match.end() :][:200])
                needed = text[match.start() - 1 : match.start()] == "!" and ends is not None
                reads.setdefault(match[1] or match[2], (self._place(file, line), needed))
        return reads

    @cached_property
    def _javascript(self) -> list[tuple[Path, str]]:
        if not (self._root / "package.json").exists():
            return []
        endings = {".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"}
        return [
            (file, file.read_text(errors="replace"))
            for file in sorted(self._root.rglob("*"))
            if file.suffix in endings
            and not SKIPPED & set(file.relative_to(self._root).parts)
            and file.stat().st_size < MAX_BYTES
        ]

    @cached_property
    def _example_texts(self) -> dict[str, str]:
        """The project's examples of `.env` and its README, by name."""
        files = [file for file in self._root.iterdir() if _EXAMPLE.fullmatch(file.name)]
        return {
            file.name: file.read_text(errors="replace")
            for file in sorted(files, reverse=True)
            if file.is_file()
        }

    @cached_property
    def _optional(self) -> set[str]:
        """Names that one of these files only has in a comment."""
        texts = self._example_texts.values()
        return {n for text in texts for n in {*_OFF.findall(text)} - {*_NAME.findall(text)}}

    @cached_property
    def examples(self) -> dict[str, str]:
        """Names that these files set and none comments out, with the file's name."""
        texts = self._example_texts.items()
        names = {name: file for file, text in texts for name in _NAME.findall(text)}
        return {name: file for name, file in names.items() if name not in self._optional}

    def secret_files(self) -> dict[str, str]:
        """Files with credentials that the source names but that do not exist, each with a place."""
        absent: dict[str, str] = {}
        for file in self.files:
            module = self._tree.read(file)
            for node in ast.walk(module.tree) if module else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    name = node.value
                    secret = _FILE.fullmatch(name) and is_secret(Path(name).name)
                    if secret and not (self._root / name).exists():
                        absent.setdefault(name, self._place(file, node.lineno))
        return absent

    def text(self) -> str:
        """Everything that these files say."""
        read = [module.text for file in self.files if (module := self._tree.read(file))]
        return "\n".join([*read, *(text for _, text in self._javascript)])

    def keys(self) -> set[str]:
        """Names of variables that hold API keys, except those that an example comments out."""
        names = {*self.variables(), *self.examples} - self._optional
        return {name for name in names if KEY.search(name)}

    def node_packages(self) -> list[str]:
        """Dependencies of `package.json` that are not installed."""
        try:
            manifest = json.loads((self._root / "package.json").read_text())
            names = list(manifest.get("dependencies", {}))
        except (OSError, ValueError, AttributeError):
            return []
        folders = [folder / "node_modules" for folder in (self._root, *self._root.parents)]
        return [name for name in names if not any((folder / name).exists() for folder in folders)]

    def _place(self, file: Path, line: int) -> str:
        return f"{file.relative_to(self._root).as_posix()}:{line}"


def missing(
    sources: Sources,
    argv: Sequence[str],
    journals: Journals,
    did: Outside,
    calls: Sequence[WatchedCall],
    *,
    root: Path,
    around: RunEnvironment,
    output: str,
    went_well: bool,
    simulated: bool,
) -> tuple[Missing, ...]:
    """Everything that was missing in a run that ended early, with remedies.

    Args:
        sources: What the repository's files say.
        argv: The command.
        journals: What the hooks wrote.
        did: What the run did beyond its own process.
        calls: The model calls.
        root: The repository's folder.
        around: The command's environment.
        output: What the program printed at its end.
        went_well: Whether it ended as a program that lacks nothing does.
        simulated: Whether the simulated model answered the model calls.
    """
    lacking = [
        *_variables(sources, journals, around, output, calls, went_well=went_well),
        *_modules(sources, journals, root, around.owner, output),
        *_programs(argv, journals, root, around.owner),
        *_files(sources, journals, output),
        *_hosts(journals, did, output, went_well, but=_PROVIDER_HOSTS if simulated else ()),
        *([] if simulated else _refusals(calls)),
    ]
    return tuple({(entry.kind, entry.name): entry for entry in reversed(lacking)}.values())[::-1]


def _variables(
    sources: Sources,
    journals: Journals,
    around: RunEnvironment,
    output: str,
    calls: Sequence[WatchedCall],
    *,
    went_well: bool,
) -> Iterator[Missing]:
    absent = {event["name"]: event["file"] for event in journals.of("variable")}
    reads = sources.variables()
    # A run that reached the model did not end for want of what it never read.
    never = {name for name in reads if ".py:" in reads[name][0]} - {*absent} if calls else set()
    present = {event["name"] for event in journals.of("variable") if event["present"]}
    ran = {event["file"] for event in journals.of("variable")}
    reasons: dict[str, str] = {}
    for name, (place, needed) in reads.items():
        file = place.rpartition(":")[0]
        # Nothing says which JavaScript files a command loads, but those that did something.
        loaded = file.endswith(".py") or name in absent or file in ran or file in output
        if name not in never and loaded and (needed or is_secret_name(name)):
            reasons[name] = f"{place} reads it, without a default."
    for name, file in absent.items():
        # Of Python the source tells more: whether a default is stated.
        if file and not file.endswith(".py") and is_secret_name(name):
            reasons.setdefault(name, f"{file} reads it.")
    invalid = _INVALID.findall(output)  # a library's own model is no settings
    own = any(re.search(rf"\bclass {name}\b", sources.text()) for name in invalid)
    if own and "pydantic_settings" in sources.modules():
        for field in _REQUIRED.findall(output):
            name = next((name for name in sources.examples if name.endswith(field.upper())), "")
            reasons[name or field.upper()] = "The program's settings require it."
    optional = {*_DEFAULTED.findall(sources.text())} - {*reads}
    either = dict(_EITHER.findall(output))
    for name in dict.fromkeys(_MENTIONED.findall(output)):
        known = name in absent or name in reads or name in sources.examples or is_secret_name(name)
        if known and name not in {*optional, *either.values()}:
            needs = f"needs it or {either[name]}" if name in either else "needs it"
            why = f"{absent.get(name) or 'The program'} {needs}, by the program's own error."
            reasons.setdefault(name, why)
    for name, file in sources.examples.items():
        if name in reads and name not in never:
            why = f"{file} names it, and {reads[name][0]} reads it; it may be optional."
            reasons.setdefault(name, why)
        elif name not in reads and KEY.search(name) and not went_well:
            reasons.setdefault(name, f"{file} names it.")
    for name, why in reasons.items():
        in_file = bool(around.dotenv.get(name))
        if not around.owner.get(name) and name not in present and (name in absent or not in_file):
            value = f", for example to {PROVIDERS[name]}" if name in PROVIDERS else ""
            fix = f"Set it in the environment or in .env{value}."
            fix = "The command does not load .env: set it in the environment." if in_file else fix
            yield Missing(kind="variable", name=name, why=why, fix=fix)


def _modules(
    sources: Sources, journals: Journals, root: Path, environ: Mapping[str, str], output: str
) -> Iterator[Missing]:
    started = journals.of("start")
    if started:
        wanted = sources.modules()
        crashed = {
            error["name"]: "The program's error names it."
            for event in journals.of("crash")
            for error in event["errors"]
            if error["type"] == "ModuleNotFoundError" and error["name"]
        }
        python = started[-1]["executable"]
        path = [place for event in journals.of("end")[-1:] for place in event["path"]]
        absent = _absent(python, path, sorted(wanted), root, environ)
        reasons = {name: wanted[name] for name in absent} | crashed
        for name, why in reasons.items():
            yield Missing(kind="module", name=name, why=why, fix=_install(root, python, name))
    lacking = [*_NODE_MODULE.findall(output)]
    for name in dict.fromkeys([*lacking, *(sources.node_packages() if lacking else [])]):
        why = "package.json requires it, but it is not installed."
        yield Missing(kind="module", name=name, why=why, fix="Run: npm install")


def _absent(
    python: str, path: Sequence[str], names: Sequence[str], root: Path, environ: Mapping[str, str]
) -> list[str]:
    """Modules that an interpreter lacks, found by asking it."""
    if not names:
        return []
    command = [python, "-c", _WHICH, json.dumps(list(path)), *names]
    try:
        answer = run_bounded(command, timeout_s=ASK_TIMEOUT_S, cwd=root, env=environ)
        return [str(name) for name in json.loads(answer.stdout)]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def _install(root: Path, python: str, module: str) -> str:
    """How to install a module's package; a file that may lack it is said to."""
    for name, command in _INSTALLING.items():
        if (root / name).is_file() and (root / name).stat().st_size:
            listed = (root / name).read_text(errors="replace").lower().replace("_", "-")
            fix = f"Run: {command.format(python=python)}"
            if module.lower().replace("_", "-") in listed:
                return fix
            return f"{fix} ({name} does not name it: if still missing, install its package)"
    return f"Install the package that provides it, with {python} -m pip."


def _programs(
    argv: Sequence[str], journals: Journals, root: Path, environ: Mapping[str, str]
) -> Iterator[Missing]:
    started = {event["path"]: "The program tried to start it." for event in journals.of("program")}
    for name, why in {**started, **dict.fromkeys(argv[:1], "The command begins with it.")}.items():
        place = str(root / name) if os.sep in name else name
        if shutil.which(place, path=environ.get("PATH")) is None:
            fix = f"Install {name}, so that it is on the PATH."
            yield Missing(kind="program", name=name, why=why, fix=fix)


def _files(sources: Sources, journals: Journals, output: str) -> Iterator[Missing]:
    for name, place in sources.secret_files().items():
        fix = "Create it as described in the project's README."
        yield Missing(kind="file", name=name, why=f"{place} names it.", fix=fix)
    fix = "Create it, or run the command in the folder that has it."
    for event in journals.of("crash"):
        for error in event["errors"]:
            lacking = error["type"] == "FileNotFoundError" and error["file"]
            if lacking and not any(
                started["path"] == error["file"] for started in journals.of("program")
            ):
                why = "The program ended because this file does not exist."
                yield Missing(kind="file", name=error["file"], why=why, fix=fix)
    for name in map("".join, _NO_FILE.findall(output)):
        why = "The program's error names it."
        example = next((file for file in sources.examples.values() if ".env" in file), "")
        copied = f"Copy {example} to it, and fill it in." if example and ".env" in name else fix
        yield Missing(kind="file", name=name, why=why, fix=copied)


WEB_PORTS = (80, 443)
_PROVIDER_HOSTS = {urlsplit(url).hostname or "" for url in PROVIDERS.values()}


def _hosts(
    journals: Journals, did: Outside, output: str, went_well: bool, *, but: Container[str]
) -> Iterator[Missing]:
    """Hosts that could not be reached; remote hosts only if the error is about them.

    What a library reports to its maker in the background ends no program.
    """
    about_network = journals.crashed(by_network=True)
    # Of Python the error is known, and a program that went on needs no host that it warned of.
    output = "" if went_well or journals.of("crash") else output
    for contact in did.contacts[:MAX_HOSTS]:
        own = is_loopback(contact.host) or about_network or contact.host in output
        if contact.host.startswith("unix:") or contact.host in but or not own:
            continue
        try:
            socket.create_connection((contact.host, contact.port), PROBE_S).close()
        except OSError as error:
            why = f"No connection was possible: {error.strerror or error}."
            fix = (
                f"Start {_service(contact.port)} that listens there."
                if is_loopback(contact.host) or contact.port not in WEB_PORTS
                else "If the agent needs this host, make it reachable from this machine."
            )
            yield Missing(kind="host", name=f"{contact.host}:{contact.port}", why=why, fix=fix)


def _service(port: int) -> str:
    try:
        return f"the service ({socket.getservbyport(port)})"
    except OSError:
        return "the service"


def _refusals(calls: Sequence[WatchedCall]) -> Iterator[Missing]:
    for call in calls:
        if call.status in (0, 401, 403):
            why = f"It answered {call.status}." if call.status else "It could not be reached."
            fix = "Set a valid key" if call.status else "Start it, or set the right address"
            fix += "; or record with --simulated, which needs no key and no model."
            yield Missing(kind="host", name=call.host, why=why, fix=fix)


def _optional(tree: ast.Module) -> Iterator[int]:
    """Lines of imports that may fail: inside a `try`, or for type checkers only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            types = [handler.type for handler in node.handlers]
            caught = " ".join(ast.unparse(type) if type else "Exception" for type in types)
            if re.search(r"ImportError|ModuleNotFoundError|\bException\b", caught):
                yield from _lines([*node.body, *node.handlers])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _lines(node.body)


def _later(tree: ast.Module) -> Iterator[int]:
    """Lines of imports that only some runs reach."""
    branches = ast.FunctionDef | ast.AsyncFunctionDef | ast.If
    return _lines(node for node in ast.walk(tree) if isinstance(node, branches))


def _lines(nodes: Iterable[ast.AST]) -> Iterator[int]:
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                yield inner.lineno


def _demanded(tree: ast.Module) -> set[str]:
    """Names without which the program ends: `assert NAME`, or `if not NAME` and it raises."""
    demanding: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            demanding.append(node.test)
        elif isinstance(node, ast.If) and re.match(
            r"raise |(?:sys\.)?exit\(", ast.unparse(node.body[-1])
        ):
            for part in ast.walk(node.test):
                demanding += [part.operand] if isinstance(part, ast.UnaryOp) else []
                demanding += [part.left] if isinstance(part, ast.Compare) else []
    return {ast.unparse(part) for test in demanding for part in ast.walk(test)}


def _read_variable(node: ast.AST) -> tuple[str, bool]:
    """Name of a variable that a node reads without a default, and whether it fails without it."""
    call = getattr(node, "value", None)
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
        if isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant):
            return str(node.slice.value), True
    elif isinstance(call, ast.Call) and isinstance(node, ast.keyword | ast.Assign | ast.AnnAssign):
        reads = re.search(r"(?:environ\.get|getenv)$", ast.unparse(call.func))
        if reads and len(call.args) == 1 and not call.keywords:
            name = call.args[0]
            return (str(name.value), False) if isinstance(name, ast.Constant) else ("", False)
    return "", False
