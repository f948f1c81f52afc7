"""Prompts in files that the code names, wherever what it reads goes then.

Fields of settings, and files that are prompts by their own name or that of their folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ratchet.wire.facts import Place, PromptPart
from ratchet.wire.looking.file_paths import FilePaths
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import CodeModule
from ratchet.wire.looking.toml_fields import toml_parts
from ratchet.wire.looking.yaml_fields import yaml_parts

_KEY = re.compile(r"""["']([\w-]+)["']""")
_NAMED = re.compile(
    r"""["'`]([^"'`\n]*\.(?:ya?ml|toml|json|md|txt|j2|jinja2?|prompty|mustache|hbs))["'`]"""
)
_FIELD = re.compile(
    r"(?:^|_)(?:prompt|template|instructions?|system|persona|preamble|backstory)s?(?:_|$)",
    re.IGNORECASE,
)
_TURN = re.compile(r"(?:system|user)$", re.IGNORECASE)
"""Fields of tables that hold the texts of a conversation's first turns."""
_TABLES = re.compile(r"""["'`]((?:[\w.-]+/)*)(?:\*\*/)?\*?\.toml["'`]""")
"""How code names all tables of a folder: `"*.toml"`, `"settings/*.toml"`, `".toml"`."""
_WRITTEN = re.compile(r"""\s*\)*\s*(?:\.write_(?:text|bytes)\(|,\s*(?:mode\s*=\s*)?["'][wax])""")
"""What follows the name of a file that the program writes itself."""
_FIELD_IN = re.compile(r"prompt|instruction|template|persona|preamble|backstory|system", re.I)
_WORD = re.compile(r"[^\W\d_]{2,}")
_SETTINGS = (".yaml", ".yml")
_MAX_SETTINGS = 200_000
_SENTENCE = 5
"""Words of the longest line of a prompt in settings: shorter ones are names."""
_LEAST_WORDS = 8
_FOLDER = re.compile(r"prompts?(?:$|_)|(?:^|_)(?:instructions|personas)$", re.IGNORECASE)
"""Names of folders whose files are prompts."""
_OF_FOLDER = re.compile(
    r"(?:agent|system|persona|role|instructions?|[\w-]*prompts?)"
    r"\.(?:md|txt|j2|jinja2?|prompt|mustache|hbs)$",
    re.IGNORECASE,
)
"""Names of a file of prompts that each of several folders has."""
_NAMING = re.compile(
    r"^\s*-?\s*\w*(?:rules?|prompt|instructions?|persona|template)\w*\s*:\s*"
    r"[\"']?([\w./-]+\.(?:md|txt))[\"']?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Fields of settings in YAML that name a file of prompts."""
_CONVENTIONS = {"managed_deepagents": ("instructions.md",)}
"""Files by the module whose framework reads them."""
_ENDINGS = (
    "",
    "md",
    "txt",
    "prompt",
    "j2",
    "jinja",
    "jinja2",
    "tmpl",
    "mustache",
    "hbs",
    "prompty",
)


def settings_prompts(names: Names) -> Iterator[tuple[str, Place, list[PromptPart]]]:
    """Files with the place that names each, and their fields that are prompts; none for the whole.

    A field counts if its name is that of a prompt, its text is long, and some code reads a field or
    key of that name: the values of settings are seldom followed further than that.
    """
    paths = FilePaths(names)
    read: set[str] | None = None
    seen: set[str] = set()
    for module in names.program.modules:
        if names.program.standing(module.path).kind != "own":
            continue
        for found in _NAMED.finditer(module.text):
            path = paths.locate(found.group(1), module.path)
            if path is None or path in seen or _WRITTEN.match(module.text, found.end()):
                continue
            seen.add(path)
            line = module.text.count("\n", 0, found.start()) + 1
            if path.endswith(".json"):
                if _holds_prompts(names.program.files.text(path) or "", names):
                    yield path, Place(module.path, line), []
                continue
            if path.endswith(".toml"):
                read = _read(names) if read is None else read
                if parts := _of_tables(path, names, read):
                    yield path, Place(module.path, line), parts
                continue
            if not path.endswith((".yaml", ".yml")):
                text = names.program.files.text(path) or ""
                own = "prompt" in path.lower() and not path.lower().endswith("readme.md")
                if own and len(_WORD.findall(text)) >= _LEAST_WORDS:
                    yield path, Place(module.path, line), []
                continue
            read = _read(names) if read is None else read
            parts = [
                part
                for part in yaml_parts(path, names.program.files.text(path) or "")
                if _FIELD.search(last := part.field.rpartition(".")[2])
                and last in read
                and len(_WORD.findall(part.text)) >= _LEAST_WORDS
            ]
            if parts:
                yield path, Place(module.path, line), parts
    for path, place in _tables_of_folders(names):
        if path not in seen:
            seen.add(path)
            read = _read(names) if read is None else read
            if parts := _of_tables(path, names, read):
                yield path, place, parts
    for path, place in (*_beside(names), *_in_folders(names), *_of_each_folder(names)):
        text = names.program.files.text(path) or "" if path not in seen else ""
        seen.add(path)
        if len(_WORD.findall(text)) >= _LEAST_WORDS:
            yield path, place, []


def _holds_prompts(text: str, names: Names) -> bool:
    """Whether settings in JSON have fields named like prompts, with long texts that code reads."""
    if len(text) > _MAX_SETTINGS or not _FIELD_IN.search(text):
        return False
    try:
        read = json.loads(text)
    except ValueError:
        return False
    if not isinstance(read, dict):
        return False
    long = {
        key
        for key, value in read.items()
        if _FIELD.search(key) and len(_WORD.findall(_lines(value))) >= _LEAST_WORDS
    }
    return any(
        f'"{key}"' in module.text or f"'{key}'" in module.text or f".{key}" in module.text
        for key in long
        for module in names.program.modules
        if names.program.standing(module.path).kind == "own"
    )


def _of_tables(path: str, names: Names, read: set[str]) -> list[PromptPart]:
    """Fields of a TOML file that are prompts by their names, in any case, and that code reads."""
    return [
        part
        for part in toml_parts(path, names.program.files.text(path) or "")
        if (_FIELD.search(last := part.field.rpartition(".")[2]) or _TURN.match(last))
        and not read.isdisjoint((last, last.lower()))
        and len(_WORD.findall(part.text)) >= _LEAST_WORDS
    ]


def _tables_of_folders(names: Names) -> Iterator[tuple[str, Place]]:
    """TOML files of the folders whose tables code reads all at once, such as with dynaconf."""
    for module in names.program.modules:
        if names.program.standing(module.path).kind != "own":
            continue
        for found in _TABLES.finditer(module.text):
            place = Place(module.path, module.text.count("\n", 0, found.start()) + 1)
            base = module.path.rpartition("/")[0]
            named = {found.group(1).strip("/"), *_folders_named([module])}
            for name in named:
                folder = f"{base}/{name}".strip("/")
                for one in names.program.files.folders.get(folder, ()):
                    if one.endswith(".toml"):
                        yield f"{folder}/{one}", place


def _lines(value: object) -> str:
    """A text, or the lines of one; empty if it is neither, or holds no sentence."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        return ""
    return value if any(len(one.split()) >= _SENTENCE for one in value.splitlines()) else ""


def _beside(names: Names) -> Iterator[tuple[str, Place]]:
    """Files that a framework reads beside the module that makes its agent, without being told."""
    for module in names.program.modules:
        if names.program.standing(module.path).kind == "own":
            for one in module.imports:
                for name in _CONVENTIONS.get(one.module.partition(".")[0], ()):
                    path = module.path.rpartition("/")[0] + f"/{name}"
                    if path.lstrip("/") in names.program.files.known:
                        yield path.lstrip("/"), Place(module.path, one.line)


def _in_folders(names: Names) -> Iterator[tuple[str, Place]]:
    """Files in folders of prompts that code names, by what it calls them: `prompts["plan"]`."""
    files = names.program.files
    by_stem: dict[str, list[str]] = {}
    for folder, inside in files.folders.items():
        if _FOLDER.search(folder.rpartition("/")[2]):
            for name in inside:
                stem, _, ending = name.partition(".")
                if ending.lower() in _ENDINGS and stem.lower() != "readme":
                    by_stem.setdefault(stem, []).append(f"{folder}/{name}")
    if not by_stem:
        return
    own = [one for one in names.program.modules if names.program.standing(one.path).kind == "own"]
    named = _folders_named(own)
    for module in own:
        for found in _KEY.finditer(module.text):
            for path in by_stem.get(found.group(1), ()):
                folder = path.rpartition("/")[0].rpartition("/")[2]
                near = path.partition("/")[0] == module.path.partition("/")[0]
                if folder in named and (near or "/" not in module.path):
                    yield path, Place(module.path, module.text.count("\n", 0, found.start()) + 1)


def _of_each_folder(names: Names) -> Iterator[tuple[str, Place]]:
    """A file of prompts in each of several folders, one for an agent: `agents/*/AGENT.md`.

    With the files that settings in these folders name as rules and the like.
    """
    files = names.program.files
    own = [one for one in names.program.modules if names.program.standing(one.path).kind == "own"]
    named = _folders_named(own)
    for module in own:
        for found in _NAMED.finditer(module.text):
            name = found.group(1).rpartition("/")[2]
            if not _OF_FOLDER.match(name):
                continue
            place = Place(module.path, module.text.count("\n", 0, found.start()) + 1)
            beside: dict[str, list[str]] = {}
            for path in files.named(name):
                folder = path.rpartition("/")[0]
                outer = folder.rpartition("/")[0]
                if outer.rpartition("/")[2] in named:
                    beside.setdefault(outer, []).append(folder)
            for outer, folders in beside.items():
                for folder in folders if len(folders) > 1 else ():
                    yield f"{folder}/{name}", place
                    for one in files.folders.get(folder, ()):
                        text = files.text(f"{folder}/{one}") if one.endswith(_SETTINGS) else None
                        for value in _NAMING.findall(text or ""):
                            for path in (f"{folder}/{value}", f"{outer}/{value}"):
                                if path in files.known:
                                    yield path, place


def _folders_named(modules: list[CodeModule]) -> set[str]:
    """Names that code writes as folders or parts of paths."""
    return {word for one in modules for word in re.findall(r"""["'/]([\w-]+)/?["']""", one.text)}


def _read(names: Names) -> set[str]:
    """Names of the fields and keys that code outside of tests reads."""
    found: set[str] = set()
    for module in names.program.modules:
        if names.program.standing(module.path).kind == "own":
            for scope in module.scope.walk():
                found |= scope.used
            found |= set(re.findall(r"""(?:\[|\.get\(\s*)["'](\w+)["']""", module.text))
    return found
