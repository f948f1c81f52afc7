"""The folder that `ratchet mcp` was started in; no repository's settings can point outside it."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ratchet.observe.project_paths import FILE_NAME, STATE_NAME, folder_with_config
from ratchet.types import InputError
from ratchet.wire.applying.stored import is_stored

_NOT_PATHS = frozenset({"server", "redaction", "prices", "upstreams", "coach", "notify"})
"""Sections whose texts are not paths, but addresses, patterns and models."""
_LINES = frozenset({"command", "test"})
"""Keys that hold a command line."""
_KEY_FILE = ("ship", "app_key")
"""A forge's key: it must be kept elsewhere, and only the code that talks to the forge reads it."""
_GIT_S = 10.0
_SHOWN = 5
_ELSEWHERE = "Start ratchet mcp in the folder that it should work on."


class OwnFolder:
    """A folder and everything inside it.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def inside(self, path: str) -> Path:
        """A folder inside it.

        Raises:
            InputError: It is outside, or not there.
        """
        folder = Path(os.path.realpath(self.root / path))
        if not folder.is_relative_to(self.root):
            raise InputError(
                f"{path} is outside {self.root}, where this server was started.",
                hint=_ELSEWHERE,
            )
        if not folder.is_dir():
            raise InputError(f"{path} is not a folder in {self.root}.")
        return folder

    def wired(self, path: str) -> Path:
        """A folder, if its wiring and its project, where it has them, are inside the root.

        Raises:
            InputError: They are not.
        """
        folder = self.inside(path)
        begins = next((above for above in (folder, *folder.parents) if is_stored(above)), folder)
        if not begins.is_relative_to(self.root):
            raise InputError(
                f"The wiring of {path} begins at {begins}, outside the folder that this server "
                "was started in.",
                hint="Start ratchet mcp there.",
            )
        if (folder / FILE_NAME).exists():
            self.project(str(folder))
        return folder

    def project(self, path: str, *, sends: bool = False) -> Path:
        """The folder of the project that a path belongs to, if all of it is inside the root.

        Args:
            path: A folder.
            sends: Whether a forge is asked, for which a key may lie elsewhere.

        Raises:
            InputError: There is no project, or something of it leads out.
        """
        folder = self.inside(path)
        root = folder_with_config(folder)
        if root is None:
            below = [str(project.relative_to(self.root)) for project in self._below(folder)]
            raise InputError(
                f"There is no {FILE_NAME} in {path} or above it.",
                hint=f"There is a project in {' and in '.join(below)}: give it as path."
                if below
                else "Wire the repository first: ratchet init",
            )
        if not root.is_relative_to(self.root):
            raise InputError(
                f"The project of {path} is {root}, outside the folder that this server was "
                "started in.",
                hint="Start ratchet mcp there.",
            )
        for what, where in self._leads(root, sends):
            real = Path(os.path.realpath(where))
            if not real.is_relative_to(self.root):
                raise InputError(
                    f"{what} leads to {real}, outside {self.root}, where this server was started.",
                    hint="Ask a person to check this, and to run the command in a terminal.",
                )
        return root

    def _below(self, folder: Path) -> list[Path]:
        """Folders at most three levels down that hold a project."""
        levels = (f"{'*/' * depth}{FILE_NAME}" for depth in (1, 2, 3))
        return list(
            islice((file.parent for level in levels for file in folder.glob(level)), _SHOWN)
        )

    def owns_git(self, folder: Path) -> None:
        """Check that a commit would not reach outside.

        The repository of a work tree lies elsewhere, and knows of it.

        Raises:
            InputError: The repository, or what git takes for the work tree, is outside.
        """
        above = next((at for at in (folder, *folder.parents) if (at / ".git").exists()), folder)
        if not above.is_relative_to(self.root):
            raise _begins_at(above)
        completed = subprocess.run(
            ["git", "rev-parse", "--show-toplevel", "--absolute-git-dir"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            check=False,
        )
        if completed.returncode:
            return  # the command says what is wrong
        top, git = (Path(os.path.realpath(line)) for line in completed.stdout.splitlines()[:2])
        if not top.is_relative_to(self.root):
            raise _begins_at(top)
        if not git.is_relative_to(self.root) and not _knows(git, top):
            raise InputError(
                f"{top / '.git'} leads to the repository {git}, which does not list it as a work "
                "tree.",
                hint="Ask a person to check this.",
            )

    def _leads(self, project: Path, sends: bool) -> Iterator[tuple[str, Path]]:
        """The paths that a project's commands read and write, by the setting that names them."""
        file = project / FILE_NAME
        yield FILE_NAME, file
        yield from _links(project / STATE_NAME)
        if not Path(os.path.realpath(file)).is_relative_to(self.root):
            return  # it is refused, and not read
        try:
            settings = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError):
            return  # the command says what is wrong
        yield "tasks.jsonl", project / "tasks.jsonl"  # unless another is named
        for keys, value in _texts(settings):
            name = f"{'.'.join(keys)} = {value!r} in {FILE_NAME}"
            where = project / Path(value).expanduser() if value.startswith("~") else project / value
            if _is_path(keys):
                yield name, _store_file(project, value) if keys[0] == "store" else where
            elif keys[:2] == _KEY_FILE:
                if sends:
                    yield name, where
            elif keys[0] not in _NOT_PATHS and keys[-1] not in _LINES and _is_there(where):
                yield name, where
            if ":" in value and keys[-1] in ("entry", "use"):
                yield from _modules(project, settings, value, name)


def _begins_at(top: Path) -> InputError:
    return InputError(
        f"The git repository begins at {top}, outside the folder that this server was started in.",
        hint=f"To commit, start ratchet mcp in {top}.",
    )


def _is_path(keys: tuple[str, ...]) -> bool:
    """Whether a setting is a path that need not exist yet."""
    is_path = keys[-1] == "file" or keys[0] in ("store", "prompt_files")
    return is_path or keys[:2] == ("agent", "path")


def _is_there(where: Path) -> bool:
    try:
        return os.path.lexists(where)
    except ValueError:  # with a NUL
        return False


def _texts(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each text in the settings, with its keys."""
    if isinstance(value, str):
        if value and "\0" not in value:
            local = value.removeprefix("local:") if keys == ("agent", "model") else value
            yield keys, local
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*keys, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, keys)


def _store_file(project: Path, url: str) -> Path:
    """The file of a store; the project's own folder for a database server."""
    if not url.startswith("sqlite:"):
        return project
    return project / url.partition("///")[2].partition("?")[0]


def _modules(
    project: Path, settings: dict[str, Any], reference: str, name: str
) -> Iterator[tuple[str, Path]]:
    """The files that a MODULE:NAME may be imported from."""
    agent = settings.get("agent")
    folders = agent.get("path", ["."]) if isinstance(agent, dict) else ["."]
    parts = reference.partition(":")[0].split(".")
    for folder in folders if isinstance(folders, list) else ["."]:
        for count in range(1, len(parts) + 1):
            at = project.joinpath(str(folder), *parts[:count])
            for where in (at, at.with_name(f"{at.name}.py"), at / "__init__.py"):
                if _is_there(where):
                    yield name, where


def _links(state: Path) -> Iterator[tuple[str, Path]]:
    """The state folder, and each link in it."""
    yield STATE_NAME, state
    if state.is_symlink():
        return
    for folder, folders, names in os.walk(state):
        for name in (*folders, *names):
            where = Path(folder, name)
            if where.is_symlink():
                yield where.relative_to(state.parent).as_posix(), where


def _knows(git: Path, top: Path) -> bool:
    """Whether a repository has registered a work tree."""
    try:
        back = (git / "gitdir").read_text(encoding="utf-8").strip()
    except OSError:
        return False
    return os.path.realpath(back) == os.path.realpath(top / ".git")
