"""What a coach is told of an agent: its facts, prompts and source, within a limit."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from ratchet.observe.capture import shorten
from ratchet.source.secret_files import is_secret
from ratchet.wire.choices import Choices
from ratchet.wire.facts import PromptSite, RepositoryLook
from ratchet.wire.looking.files import is_env_file
from ratchet.wire.recommending.choosing import within

PROMPT = 3_000
"""Characters of one prompt."""
SOURCE = 12_000
"""Characters of source."""
MOST = 24_000
"""Characters in all."""


def briefing(root: Path, look: RepositoryLook, choices: Choices) -> str:
    """The agent in text. It is redacted later, where it is sent.

    Args:
        root: The repository.
        look: Its facts. Files that it names as those of secrets are not read.
        choices: What is wired.
    """
    here = choices.project
    frameworks = ", ".join(one.name for one in look.frameworks)
    parts = [
        f"The agent {choices.agent}, made with {frameworks or 'no framework'}.",
        f"A task runs {choices.entry.call} with {', '.join(choices.entry.inputs) or 'no inputs'}.",
    ]
    for one in choices.prompts:
        text = _prompt_text(root, look, one.prompt)
        parts.append(f"## Prompt {one.name} ({one.prompt.place})\n{shorten(text, PROMPT)}")
    tools = [one for one in look.tools if within(one.place.path, here)]
    if tools:
        lines = [f"- {one.name}: {shorten(one.description, 200)}" for one in tools[:30]]
        parts.append("## Tools\n" + "\n".join(lines))
    calls = [one.place.path for one in look.model_calls if within(one.place.path, here)]
    left = SOURCE
    for path in dict.fromkeys([choices.entry.place.path, *calls]):
        text = shorten(_text(root, look, path), left) if left else ""
        left = max(left - len(text), 0)
        if text:
            parts.append(f"## {path}\n{text}")
    return shorten("\n\n".join(parts), MOST)


def _prompt_text(root: Path, look: RepositoryLook, site: PromptSite) -> str:
    text = "\n".join(part.text for part in site.parts)
    return text if text.strip() or site.kind != "text" else _text(root, look, site.place.path)


def _text(root: Path, look: RepositoryLook, path: str) -> str:
    """Text of a file of the repository; empty for a file of secrets, or one that is elsewhere."""
    secret = {one.place.path for one in look.secrets if one.kind == "file"}
    whole = (root / path).resolve()
    if path in secret or any(is_env_file(p) or is_secret(p) for p in PurePosixPath(path).parts):
        return ""
    if not whole.is_relative_to(root.resolve()):
        return ""
    try:
        return whole.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
