"""The command line: `python -m stdlib_helper "how do I count words"` prints the top five."""

from __future__ import annotations

import sys

from .agent import answer
from .cache import documents

SHOWN = 5


def main(arguments: list[str]) -> int:
    """Prints the best answers to the question that the arguments spell; returns the exit code."""
    question = " ".join(arguments).strip()
    if not question:
        print('Ask a question: python -m stdlib_helper "how do I count words"', file=sys.stderr)
        return 2
    summaries = {document.name: document.summary for document in documents()}
    names = answer(question)[:SHOWN]
    for name in names:
        print(f"{name:32} {summaries[name]}")
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
