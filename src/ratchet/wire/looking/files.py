"""The files of a repository that may be read: no secrets, no packages, nothing outside."""

from __future__ import annotations

import os
import re
import tokenize
from collections import Counter
from pathlib import Path, PurePosixPath

import msgspec

from ratchet.source.generated_files import generated_notice
from ratchet.source.secret_files import is_secret
from ratchet.types import InputError
from ratchet.wire.facts import LanguageShare, PassedOver

MAX_BYTES = 2_000_000
"""Larger files are not read."""
MAX_FILES = 500_000

LANGUAGES = {
    "py": "Python",
    "ipynb": "Notebook",
    **dict.fromkeys(("ts", "tsx", "mts", "cts"), "TypeScript"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), "JavaScript"),
    "go": "Go",
    "rs": "Rust",
    "java": "Java",
    "kt": "Kotlin",
    "cs": "C#",
    "rb": "Ruby",
    "php": "PHP",
    "swift": "Swift",
    "scala": "Scala",
    "ex": "Elixir",
    **dict.fromkeys(("c", "h"), "C"),
    **dict.fromkeys(("cc", "cpp", "hpp"), "C++"),
    **dict.fromkeys(("sh", "bash"), "Shell"),
    "lua": "Lua",
    "r": "R",
    "dart": "Dart",
}

_PACKAGES = frozenset(
    {
        "__pycache__",
        "node_modules",
        "bower_components",
        "site-packages",
        "dist-packages",
        "venv",
        "env",
        "virtualenv",
    }
)
_BUILT = frozenset({"build", "dist", "out", "target", "coverage", "htmlcov", "storybook-static"})
_VENDORED = frozenset(
    {"vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty", "external"}
)
_SHOWN = frozenset({".github", ".gitlab-ci.yml"})
"""Hidden names that are read."""
_STARTING = re.compile(
    r"(?:.*\.)?(?:Docker|Container)file(?:[.-].*)?$|Procfile(?:\..*)?$|(?:docker-)?compose.*\.ya?ml$",
    re.IGNORECASE,
)


def is_env_file(name: str) -> bool:
    """Whether a file is named like a file of environment variables; none of them is ever opened."""
    return name == ".env" or name.startswith((".env.", ".env-", ".env_")) or name.endswith(".env")


class RepositoryFiles:
    """The files of a folder.

    Args:
        root: The folder.

    Raises:
        InputError: It is no folder, or has too many files.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(
                f"{root} is not a folder.", hint="Name the folder of a repository to look at."
            )
        self.root = root.resolve()
        self.paths: list[str] = []
        """Relative, with forward slashes, sorted."""
        self.secret: list[str] = []
        """Files that are named and not opened."""
        self.left_out: list[PassedOver] = []
        self.unreadable: dict[str, str] = {}
        self._texts: dict[str, str | None] = {}
        self._walk()
        self.known = frozenset(self.paths)
        self.folders = self._folders()

    @property
    def git(self) -> bool:
        """Whether the folder is, or lies in, a git repository."""
        return any((folder / ".git").exists() for folder in (self.root, *self.root.parents))

    def _walk(self) -> None:
        for folder, folders, names in os.walk(self.root):
            inside = os.path.relpath(folder, self.root).replace(os.sep, "/")
            prefix = "" if inside == "." else inside + "/"
            kept = []
            for name in sorted(folders):
                reason = self._excluded(folder, name)
                if reason:
                    if reason != "hidden":
                        self.left_out.append(PassedOver(prefix + name + "/", reason))
                elif is_secret(name):
                    self.secret.append(prefix + name + "/")
                else:
                    kept.append(name)
            folders[:] = kept
            for name in sorted(names):
                path = prefix + name
                if is_env_file(name) or is_secret(name):
                    self.secret.append(path)
                elif os.path.islink(os.path.join(folder, name)) and not self._within(path):
                    self.left_out.append(PassedOver(path, "link out of the repository"))
                else:
                    self.paths.append(path)
            if len(self.paths) > MAX_FILES:
                raise InputError(
                    f"{self.root} has more than {MAX_FILES:,} files.",
                    hint="Name the folder of one project in it.",
                )
        self.paths.sort()

    def _excluded(self, folder: str, name: str) -> str:
        whole = os.path.join(folder, name)
        if name == ".git":
            return "hidden"
        if os.path.islink(whole):
            return "link to a folder"
        if name in _PACKAGES or os.path.exists(os.path.join(whole, "pyvenv.cfg")):
            return "installed packages"
        if name in _VENDORED:
            return "vendored copy"
        if name in _BUILT and not os.path.exists(os.path.join(whole, "__init__.py")):
            return "build output"
        if name.startswith(".") and name not in _SHOWN and not is_secret(name):
            return "hidden"
        return ""

    def _within(self, path: str) -> bool:
        try:
            return (self.root / path).resolve(strict=True).is_relative_to(self.root)
        except OSError:
            return False

    def _folders(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {"": []}
        for path in self.paths:
            folder, _, name = path.rpartition("/")
            found.setdefault(folder, []).append(name)
            while folder:
                folder = folder.rpartition("/")[0]
                found.setdefault(folder, [])
        return found

    def text(self, path: str) -> str | None:
        """Text of a file; None if it cannot be read, and why is noted in `unreadable`."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        if path not in self.known:
            return None
        file = self.root / path
        try:
            if file.stat().st_size > MAX_BYTES:
                self.unreadable[path] = f"is larger than {MAX_BYTES // 1_000_000} MB"
                return None
            if not file.is_file():
                return None
            if path.endswith(".py"):
                with open(file, "rb") as opened:
                    encoding, _ = tokenize.detect_encoding(opened.readline)
                return file.read_bytes().decode(encoding)
            return file.read_bytes().decode("utf-8-sig")
        except (OSError, SyntaxError, LookupError):
            self.unreadable[path] = "cannot be read"
        except UnicodeDecodeError:
            self.unreadable[path] = "is not text"
        return None

    def head(self, path: str, size: int) -> tuple[str, bool]:
        """Text of a file's first bytes, and whether that is all; empty if it cannot be read."""
        try:
            if path not in self.known or not (self.root / path).is_file():
                return "", True
            with open(self.root / path, "rb") as opened:
                data = opened.read(size + 1)
        except OSError:
            self.unreadable[path] = "cannot be read"
            return "", True
        return data[:size].decode("utf-8-sig", errors="replace"), len(data) <= size

    def languages(self) -> tuple[LanguageShare, ...]:
        """Languages by number of files."""
        counts = Counter(
            LANGUAGES[ending]
            for path in self.paths
            if (ending := path.rpartition(".")[2].lower()) in LANGUAGES
        )
        return tuple(LanguageShare(name, files) for name, files in counts.most_common())

    def starting(self) -> list[str]:
        """Files with the commands that start programs: Dockerfiles, Procfiles, compose files."""
        return [path for path in self.paths if _STARTING.match(path.rpartition("/")[2])]

    def named(self, *names: str) -> list[str]:
        """Files of these names, at any depth, outermost first."""
        found = [path for path in self.paths if path.rpartition("/")[2] in names]
        return sorted(found, key=lambda path: (path.count("/"), path))


_STANDING_BY_FOLDER = {
    "legacy": {
        *("legacy", "old", "deprecated", "archive", "archived", "backup", "backups", "obsolete"),
        *("unused", "attic", "graveyard", "bak", "previous"),
    },
    "test": {"test", "tests", "__tests__", "spec", "specs", "testing", "e2e"},
    "evaluation": {
        *("eval", "evals", "evaluate", "evaluation", "evaluations", "benchmark", "benchmarks"),
        *("evaluators", "custom_evals"),
    },
    "example": {
        *("example", "examples", "sample", "samples", "demos", "tutorial", "tutorials", "cookbook"),
        *("cookbooks", "docs", "doc", "documentation", "playground", "experiments", "sandbox"),
    },
}
_TRIED = re.compile(
    r"(?:^|[-_ ])(?:tryouts?|try-?outs|scratch|examples|experiments)$", re.IGNORECASE
)
"""Folders beside the program in which something was tried."""
_LEGACY_STEM = re.compile(
    r"(?:^|[_\-. ])(?:old|legacy|deprecated|backup|bak|copy|obsolete|unused|orig)(?:[_\-. ]?\d*)$"
    r"|^(?:old|legacy|deprecated|backup|copy of)[_\-. ]",
    re.IGNORECASE,
)
_TEST_STEM = re.compile(r"^(?:test_.*|.*_test|conftest|.*\.(?:test|spec))$")
_EVALUATION_STEM = re.compile(
    r"^(?:(?:run_)?eval(?:uat\w+)?(?:_.*)?|.*_eval(?:uation)?s?|(?:.*_)?benchmarks?)$"
)
_ROUTE = re.compile(
    r"(?P<app>(?:.*?/)??)(?:src/)?(?:app/(?:.*/)?route\.[jt]sx?|pages/api/.*\.[jt]s)$"
)
"""Files that Next.js serves by their place."""
_NOTICE = re.compile(r"generated", re.IGNORECASE)


class FileStanding(msgspec.Struct, frozen=True):
    """What a file is to the agent."""

    kind: str
    """`own`, `test`, `evaluation`, `example`, `legacy`, `generated`."""
    reason: str = ""


OWN = FileStanding("own")


def app_of_route(path: str) -> str | None:
    """The folder of the Next.js app that serves a file as a route, with its slash; else None."""
    found = _ROUTE.match(path)
    return found.group("app") if found is not None else None


def standing_of(path: str, text: str | None = None) -> FileStanding:
    """What a file is to the agent, by its place and its first lines.

    Args:
        path: Relative to the repository.
        text: Its text, to recognise generated code.
    """
    *folders, name = PurePosixPath(path).parts
    if (app := app_of_route(path)) is not None:
        folders = list(PurePosixPath(app).parts)  # the others are parts of a URL
    for kind, names in _STANDING_BY_FOLDER.items():
        for folder in folders:
            if folder.lower() in names or (kind == "example" and _TRIED.search(folder)):
                return FileStanding(kind, f"it lies in {folder}/")
    stem = name.rpartition(".")[0]
    if _TEST_STEM.match(stem):
        return FileStanding("test", "its name is that of a test")
    if _LEGACY_STEM.search(stem):
        return FileStanding("legacy", "its name is that of an older copy")
    if _EVALUATION_STEM.match(stem):
        return FileStanding("evaluation", "its name is that of an evaluation")
    if text is not None:
        comments = ("#",) if name.endswith(".py") else ("//", "/*", "*")
        if _NOTICE.search(text[:4000]) and generated_notice(text, comments):
            return FileStanding("generated", "its first lines say that it is generated")
        if len(text) > 20_000 and len(text) > 1500 * (text.count("\n") + 1):
            return FileStanding("generated", "it is minified")
    return OWN
