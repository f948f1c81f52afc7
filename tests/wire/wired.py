"""A small agent in a git repository, and steps that wire it as Ratchet's own do."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from ratchet.wire import RepositoryLook, look
from ratchet.wire.changes import Changes, FileChange, Piece, StepChanges
from ratchet.wire.choices import Choices, PromptChoice
from ratchet.wire.former import FormerPlan, commit, make_plan

AGENT = '''\
"""A helper of a library."""
import anthropic

from mail import send_letter

RULES = """You plan the shelves of a public library.
Explain each choice to the staff in charge (all of them)."""
TONE = 'You are the friendly voice of a public library, and answer in two short sentences.'


def tool(function):
    return function


@tool
def write_letter(text):
    """Write to a reader."""
    send_letter(text)


def ask(question, day="Monday"):
    client = anthropic.Anthropic()
    messages = [{"role": "user", "content": question}]
    return client.messages.create(
        model="m",
        system=RULES + TONE + f"Today is {day}, and the library closes at six in the evening.",
        messages=messages,
    )
'''
FILES = {
    "agent.py": AGENT,
    "mail.py": (
        "import smtplib\n\n\n"
        "def send_letter(text):\n    smtplib.SMTP('h').sendmail('a', 'b', text)\n"
    ),
    "requirements.txt": "anthropic>=0.40\nhttpx\n",
    ".gitignore": "__pycache__/\n",
    "README.md": "# Library\n",
}
_INLINE = 'f"Today is {day}, and the library closes at six in the evening."'


def git(root: Path, *arguments: str) -> str:
    """Run git with an identity of its own, and return what it prints."""
    identity = ["-c", "user.name=T", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


def repository(root: Path, files: dict[str, str] | None = None) -> Path:
    """A git repository of one commit."""
    if files is None:
        return Path(shutil.copytree(_made() / "plain", root))
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode(errors="surrogateescape"))
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def wired(root: Path) -> Path:
    """The usual repository, wired, on the branch of that."""
    return Path(shutil.copytree(_made() / "wired", root))


@functools.cache
def _made() -> Path:
    """Both, made once: a copy costs no process."""
    folder = Path(tempfile.mkdtemp(prefix="ratchet-wired-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = repository(folder / "plain", FILES)
    shutil.copytree(made, folder / "wired")
    commit(folder / "wired", plan_of(folder / "wired"))
    return folder


def tree_hash(root: Path) -> str:
    """A hash of all files with their times, git's own too."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        state = path.lstat()
        found.update(f"{path.relative_to(root)} {state.st_mode} {state.st_mtime_ns}".encode())
        if path.is_symlink():
            found.update(os.readlink(path).encode())
        elif path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def snapshot(root: Path) -> dict[str, bytes]:
    """Bytes of the files of a work tree, without git's own."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] != ".git"
    }


def choices_of(found: RepositoryLook, *, workflow: bool = False, project: str = ".") -> Choices:
    """Bind all prompts in the code."""
    prompts = tuple(
        PromptChoice(one, re.sub(r"\W+", "_", one.name).lower().strip("_"), "code", "a constant")
        for one in found.prompts
    )
    return Choices(project, "library", found.entries[0], "python", prompts, workflow=workflow)


def bind(root: Path, found: RepositoryLook, choices: Choices) -> StepChanges:
    """Bind the constants, and the f-string by a constant of its own."""
    files = []
    for path in dict.fromkeys(one.place.path for one in found.model_calls):
        data = (root / path).read_bytes()
        text = data.decode(errors="surrogateescape")
        end = "\r\n" if b"\r\n" in data else "\n"
        pieces = []

        def at(position: int, text: str = text) -> int:
            return len(text[:position].encode(errors="surrogateescape"))

        for one in re.finditer(r"^([A-Z]+) = (\"\"\"[\s\S]*?\"\"\"|'[^'\n]*')", text, re.M):
            opening = f'str(ratchet.prompt("{one[1].lower()}", '
            pieces += [
                Piece(at(one.start(2)), at(one.start(2)), opening),
                Piece(at(one.end(2)), at(one.end(2)), "))"),
            ]
        if (start := text.find(_INLINE)) >= 0:
            pieces.append(Piece(at(start), at(start + len(_INLINE)), "_TODAY.format(day=day)"))
            first = at(text.index("def tool"))
            made = f'_TODAY = ratchet.prompt("today", "{_INLINE[2:-1]}"){end}{end}{end}'
            pieces.append(Piece(first, first, made))
        if pieces:
            first = at(text.index("import anthropic"))
            line = first + len(f"import anthropic{end}")
            pieces.append(Piece(line, line, f"import ratchet{end}"))
            files.append(FileChange(path, "Prompts are declared.", tuple(pieces)))
    return StepChanges(Changes(tuple(files)))


def enter(root: Path, found: RepositoryLook, choices: Choices) -> StepChanges:
    """Mark the tool, and add an adapter."""
    files = []
    for path in dict.fromkeys(one.place.path for one in found.model_calls):
        data = (root / path).read_bytes()
        mark = b"@tool\r\n" if b"@tool\r\n" in data else b"@tool\n"
        if mark in data and b"side_effects" not in data:
            at = data.index(mark)
            end = mark[5:].decode()
            made = f"@ratchet.tool(side_effects=True){end}"
            files.append(FileChange(path, "Tools are marked.", (Piece(at, at, made),)))
    adapter = (
        "import ratchet\nfrom agent import ask\n\n\n"
        "@ratchet.agent\ndef run(question):\n    return ask(question)\n"
    )
    folder = "" if choices.project == "." else f"{choices.project}/"
    files.append(FileChange(f"{folder}ratchet_agent.py", "What a rollout runs.", content=adapter))
    return StepChanges(
        Changes(tuple(files)), {"agent": {"entry": "ratchet_agent:run", "name": "library"}}
    )


def start(root: Path, found: RepositoryLook, choices: Choices) -> StepChanges:
    """Tasks, and an evaluator."""
    folder = "" if choices.project == "." else f"{choices.project}/"
    tasks = '{"input": "Where is the atlas?", "expected": "Shelf 4"}\n'
    files = (FileChange(f"{folder}tasks.jsonl", "Tasks to begin with.", content=tasks),)
    config = {"evaluators": [{"use": "exact_match"}], "objective": {"evaluator": "exact_match"}}
    return StepChanges(Changes(files), {"tasks": {"file": "tasks.jsonl"}, **config})


STEPS: tuple[Callable[[Path, RepositoryLook, Choices], StepChanges], ...] = (bind, enter, start)


def plan_of(root: Path, *, workflow: bool = False) -> FormerPlan:
    """The plan of a repository."""
    found = look(root)
    return make_plan(root, found, choices_of(found, workflow=workflow), STEPS)
