"""Every case of `patch_cases/`: the exact patch, files that parse, values that are read back."""

from __future__ import annotations

import ast
import importlib.util
import json
import linecache
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from ratchet.bind import registry
from ratchet.ship import make_patch
from ratchet.source.literals.languages import language_of
from ratchet.types import (
    Candidate,
    Code,
    Declaration,
    Model,
    Params,
    PromptTemplate,
    Resource,
    ShipError,
    defaults,
)

from .patch_cases import Case, hunks, read_cases

CASES = read_cases()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One git repository with a folder for each case."""
    root = tmp_path_factory.mktemp("patches")
    for number, case in enumerate(CASES):
        for path, data in case.files.items():
            file = root / str(number) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for command in (
        "init --quiet",
        "add --all",
        "-c user.name=Ada -c user.email=ada@example.org commit --quiet --message first",
    ):
        subprocess.run(["git", *command.split()], cwd=root, env=environment, check=True)
    return root


def load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Declaration]:
    """Import `agent.py` of a folder, as its program does, and return what it declares."""
    if not (folder / "agent.py").exists():
        return {}
    linecache.clearcache()
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location("agent", folder / "agent.py")
    assert spec is not None
    assert spec.loader is not None
    registry.forget()
    with monkeypatch.context() as patched:
        patched.chdir(folder)
        patched.setattr(sys, "path", [str(folder), *sys.path])
        patched.setattr(sys, "dont_write_bytecode", True)
        patched.setitem(sys.modules, "agent", module := importlib.util.module_from_spec(spec))
        try:
            spec.loader.exec_module(module)
            return registry.declarations()
        finally:
            registry.forget()
            for name, other in list(sys.modules.items()):
                if (getattr(other, "__file__", None) or "").startswith(str(folder)):
                    del sys.modules[name]


def changed(old: Resource, text: str) -> Resource:
    match old:
        case PromptTemplate():
            return PromptTemplate(text, old.engine)
        case Params():
            return old.replace(**json.loads(text))
        case Code():
            return Code(text, old.function)
        case Model():
            return Model(**{"model": old.model, "base_url": old.base_url} | json.loads(text))


def check_parses(path: str, old: bytes, new: bytes) -> None:
    """By the language's own parser; where this program has none, by its grammar."""
    text = new.decode("utf-8-sig")
    match Path(path).suffix:
        case ".py":
            ast.parse(text)
        case ".json":
            json.loads(text)
        case ".toml":
            tomllib.loads(text)
        case ".yaml" | ".yml":
            list(yaml.safe_load_all(text))
    read = language_of(path).read
    if Path(path).suffix not in (".jsonc", ".json5"):
        assert read(new.decode())[1] == 0
    assert read(new.decode())[1] == read(old.decode())[1]
    assert (b"\r\n" in old) == (b"\r\n" in new)
    assert b"\r\n" not in old or new.count(b"\n") == new.count(b"\r\n")
    assert old.startswith(b"\xef\xbb\xbf") == new.startswith(b"\xef\xbb\xbf")


def same_resources(one: Mapping[str, Resource], other: Mapping[str, Resource]) -> None:
    assert one.keys() == other.keys()
    for name, resource in one.items():
        if isinstance(resource, Params):
            wanted = other[name]
            assert isinstance(wanted, Params)
            assert repr(resource.values) == repr(wanted.values)
        elif isinstance(resource, Code):
            wanted = other[name]
            assert isinstance(wanted, Code)
            assert ast.dump(ast.parse(resource.source)) == ast.dump(ast.parse(wanted.source))
        else:
            assert resource == other[name]


def candidates(
    case: Case, root: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Candidate, Candidate, dict[str, Declaration]]:
    """Baseline and candidate of a case, and what its source declares."""
    declarations = load(root, monkeypatch)
    for name, text in case.texts.items():
        declarations[name] = Declaration(name, PromptTemplate(text), located_by="text")
    baseline = Candidate.of(defaults(declarations))
    new = {
        name: changed(baseline.resources[name], text) for (_, name), text in case.changes.items()
    }
    return baseline, baseline.derive(new, algorithm="test"), declarations


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_patch_is_exactly_the_expected_one(
    case: Case,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = repository / str(CASES.index(case))
    baseline, candidate, declarations = candidates(case, root, monkeypatch)
    if case.refused:
        with pytest.raises(ShipError) as caught:
            make_patch(baseline, candidate, declarations, root)
        for line in case.refused.splitlines():
            assert line in str(caught.value)
        return
    patch = make_patch(baseline, candidate, declarations, root)
    assert {path: hunks(*both) for path, both in patch.files.items()} == case.diffs
    for path, data in case.files.items():
        target = tmp_path / "patched" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        old, new = patch.files.get(path, (data, data))
        assert old == data
        target.write_bytes(new)
        if path in patch.files:
            check_parses(path, old, new)
    declared = {name: r for name, r in candidate.resources.items() if name not in case.texts}
    same_resources(defaults(load(tmp_path / "patched", monkeypatch)), declared)
    for name in case.texts:
        (target,) = (one for one in patch.targets if one.name == name)
        check_reads_back(patch.files[target.file][1].decode(), target.file, candidate, name)


def check_reads_back(text: str, path: str, candidate: Candidate, name: str) -> None:
    """The edited file holds one literal that is the candidate's prompt."""
    from ratchet.ship.literal_search import text_of
    from ratchet.source.literals.search import fits_in, read_file

    resource = candidate.resources[name]
    assert isinstance(resource, PromptTemplate)
    assert len(fits_in(read_file(text, path), text_of(resource))) == 1


PARSE = """
const vm = require("vm");
for (const [path, code] of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
  path.endsWith(".mjs") || /^(import|export) /m.test(code)
    ? new vm.SourceTextModule(code)
    : new vm.Script(code);
}
"""


def test_node_accepts_the_patched_files_too(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    files = []
    for number, case in enumerate(CASES):
        if any(Path(path).suffix in (".js", ".cjs", ".mjs") for path in case.diffs):
            root = repository / str(number)
            patch = make_patch(*candidates(case, root, monkeypatch), root)
            files += [(path, new.decode()) for path, (_, new) in patch.files.items()]
    assert len(files) >= 5
    command = [node, "--no-warnings", "--experimental-vm-modules", "-e", PARSE]
    subprocess.run(command, input=json.dumps(files), text=True, check=True, timeout=60)


def test_there_are_enough_cases_and_each_has_a_title_of_its_own() -> None:
    assert len(CASES) >= 120
    assert len({str(case) for case in CASES}) == len(CASES)
    assert all(bool(case.refused) != bool(case.diffs) for case in CASES)
