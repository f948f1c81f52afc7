"""Decides by a command's words whether it starts a program, and whether that is a service."""

from __future__ import annotations

import json
import re

_LAUNCHERS = (
    r"(?:python[\d.]*|uvicorn|gunicorn|hypercorn|fastapi|flask|streamlit|chainlit|gradio|langgraph"
    r"|adk|crewai|node|nodemon|tsx|ts-node|deno|bun|npx|npm|pnpm|yarn|go run|cargo run|dotnet run"
    r"|java|ruby|php|mastra|next|vite|docker(?:-| )compose up|(?:ba)?sh|\./[\w./-]+)"
)
_STARTS = re.compile(
    rf"(?:^|[\s;&|@($])(?:exec\s+|nohup\s+|time\s+)?(?:\w+=\S*\s+)*"
    rf"(?:(?:uv|poetry|pdm|hatch|rye|pixi|pipenv|conda)\s+run\s+(?:-\S+\s+)*\S"
    rf"|{_LAUNCHERS}\s+\S|\./[\w./-]+)",
    re.M,
)
_TOOLS = re.compile(
    r"\b(?:pytest|unittest|coverage|ruff|black|isort|mypy|flake8|pylint|pre-commit|twine|build"
    r"|pip3?\b|venv|virtualenv|ensurepip|sphinx\w*|mkdocs|alembic|ipykernel|nltk\.downloader"
    r"|spacy download|playwright install|tsc|eslint|prettier|jest|vitest|mocha|typedoc)\b"
    r"|\b(?:npm|pnpm|yarn|bun|uv|poetry|pdm|crewai)\s+(?:(?:ci|i|install|add|sync|lock|update|init|create"
    r"|audit|publish|test|lint|format|export|tool|pip|venv|self|config|shell|env|cache)\b|(?:run\s+)?"
    r"(?:build|lint|format|test|typecheck)\b)|\bmanage\.py\s+(?!runserver)|\b(?:python[\d.]*\s+setup\.py)"
    r"|\bpython[\d.]*\s+(?:-c|--version|-V)\b|(?:^|\s)(?:npx|bunx)\s+(?:create|shadcn|prisma|playwright)"
    r"|create-\w|\b(?:ba)?sh\s+-c\b"
)
"""Words of commands that install, build or check."""
_SERVES = re.compile(
    r"\b(?:uvicorn|gunicorn|hypercorn|waitress|flask\s+(?:\S+\s+)*run|streamlit\s+run|chainlit\s+run"
    r"|fastapi\s+(?:dev|run)|langgraph\s+(?:dev|up)|langgraph-cli\s+dev|runserver|next\s+(?:dev|start)"
    r"|vite|serve\w*|server|docker(?:-| )compose\s+up|adk\s+(?:web|api_server))\b"
    r"|--port\b|\.launch\(|app\.run\(|\.listen\(|ListenAndServe"
)


def starts_program(command: str) -> bool:
    """Whether a line of a command starts a program, and does not build or check something."""
    return any(
        _STARTS.search(part) is not None and _TOOLS.search(part) is None
        for line in command.splitlines()
        for part in re.split(r"&&|;|\|\|", line)
        if not part.lstrip().startswith("#")
    )


def serves(command: str) -> bool:
    """Whether the words of a command or a program say that it waits for requests."""
    return _SERVES.search(command) is not None


def words_of(stated: str) -> str:
    """A command on one line, even if it is written as a list or over several lines."""
    text = stated.replace("\\\n", " ").strip().rstrip(",")
    try:
        listed = json.loads(text)
        text = " ".join(map(str, listed)) if isinstance(listed, list) else str(listed)
    except ValueError:
        text = re.sub(r"^\s*-\s+", " ", text, flags=re.M)
    return " ".join(text.split())
