"""Which files of a repository are searched for literals."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Final

from ratchet.observe.project_paths import FILE_NAME
from ratchet.source.files import SKIPPED, own_files
from ratchet.source.generated_files import generated_notice
from ratchet.source.secret_files import in_secret_place

MAX_BYTES: Final = 1_000_000

_LOCK_FILES = frozenset(
    {
        *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock"),
        *("composer.lock", "Cargo.lock", "Gemfile.lock", "poetry.lock", "uv.lock", "Pipfile.lock"),
        *("pdm.lock", "go.sum", "flake.lock", "deno.lock"),
    }
)
_DATA = frozenset(
    ["jsonl", "ndjson", "csv", "tsv", "parquet", "log", "map", "snap", "ipynb", "svg"]
)
_CODE = frozenset(
    {
        *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue"),
        *(".go", ".rs", ".java", ".kt", ".scala", ".rb", ".php", ".cs", ".c", ".h", ".cc", ".cpp"),
        *(".sh", ".bash", ".zsh", ".fish", ".pl", ".lua", ".swift", ".ex", ".exs", ".r", ".jl"),
    }
)
_MINIFIED = re.compile(r"\.(min|bundle)\.\w+$|-min\.\w+$")
_TEST = re.compile(
    r"(^|/)(tests?|__tests__|spec|specs|e2e|fixtures?|__fixtures__|__mocks__|testdata|cassettes)/"
    r"|(^|/)(test_[^/]*|conftest)\.py$|_test\.(py|go|sh)$|\.(test|spec)\.\w+$"
)
_LONG_LINES = 500
"""Mean characters per line above which a program counts as a bundle."""

_COMMENTS = ("#", "//", "/*", "*", "<!--")


def is_searched(path: str) -> bool:
    """Whether a file may hold a prompt's source, by its name.

    Args:
        path: Relative to the repository's root, with forward slashes.
    """
    pure = PurePosixPath(path)
    return not (
        in_secret_place(Path(path))
        or any(folder in SKIPPED for folder in pure.parts[:-1])
        or pure.name in _LOCK_FILES
        or pure.name == FILE_NAME  # which names the agent's models and inputs again
        or pure.suffix.removeprefix(".") in _DATA
        or _MINIFIED.search(pure.name)
    )


def not_edited(path: str, data: bytes) -> str:
    """Why a file that a program reads must not be edited, as a clause; empty if it may.

    Args:
        path: Relative to the repository's root, with forward slashes.
        data: Its content.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "the file is not UTF-8"
    if not is_searched(path):
        return "the file is not source: it is installed, built, a lock file, data, or secret"
    return "the file is marked as generated" if is_generated(text) else ""


def is_code(path: str) -> bool:
    """Whether a file is a program in a usual language, by its name."""
    return PurePosixPath(path).suffix in _CODE


def place_in_code(root: Path, text: str) -> str:
    """The first place of a text in a project's code, as FILE:LINE; empty if it does not occur."""
    for file in own_files(root):
        source = read_text(file, root) if is_code(file.name) else None
        for number, line in enumerate((source or "").splitlines(), 1):
            if text in line:
                return f"{file.relative_to(root).as_posix()}:{number}"
    return ""


def is_test(path: str) -> bool:
    """Whether a file belongs to tests, by its name: its literals are copies."""
    return _TEST.search(path) is not None


def read_text(file: Path, root: Path) -> str | None:
    """A file's text; None if it is not text, too large, outside the folder, or a bundle."""
    try:
        if file.is_symlink() or not file.resolve().is_relative_to(root):
            return None
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        data = file.read_bytes()
        text = data.decode()
    except (OSError, ValueError):
        return None
    return None if "\0" in text or _is_written_by_a_program(file, text) else text


def is_generated(text: str) -> bool:
    """Whether a notice at its beginning says that a file is generated."""
    return bool(generated_notice(text, _COMMENTS))


def _is_written_by_a_program(file: Path, text: str) -> bool:
    """Whether it is a bundle, or data on one line: people break lines."""
    if file.suffix == ".json":
        return len(text) > _LONG_LINES and "\n" not in text.strip()
    if file.suffix not in (".js", ".mjs", ".cjs", ".css") or len(text) < 20_000:
        return False
    return len(text) / (text.count("\n") + 1) > _LONG_LINES
