"""A CI job that recomputes the evidence of a pull request in the user's own repository."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ratchet._version import __version__
from ratchet.ship.forges.address import ForgeName
from ratchet.ship.forges.branch import EVIDENCE_FOLDER
from ratchet.ship.forges.settings import ForgeSettings, place_of
from ratchet.ship.pull_request import write_text_file
from ratchet.ship.remote import Remote
from ratchet.ship.repository import Repository
from ratchet.types import ShipError

PATHS: dict[ForgeName, str] = {
    "github": ".github/workflows/ratchet-evidence.yml",
    "gitlab": ".gitlab/ratchet-evidence.yml",
}
_FIRST = "# Written by `ratchet ship --ci-workflow`"
_VERIFY = f"""\
for file in {EVIDENCE_FOLDER}/*.json; do
  echo "$file"
  ratchet verify "$file" || exit 1
done"""


@dataclass(frozen=True)
class WrittenWorkflow:
    """Where the job was written."""

    path: Path
    written: bool
    """False when the file was up to date."""
    next_step: str


def write_workflow(folder: Path, settings: ForgeSettings) -> WrittenWorkflow:
    """Write the CI job of the forge into the work tree, for the user to commit.

    Raises:
        ConfigError: The forge is not known.
        ShipError: The file exists and was written by someone else, or cannot be written.
    """
    repository = Repository.open(folder)
    forge = settings.forge or place_of(Remote(repository, settings.remote).url(), settings).forge
    relative = PATHS[forge]
    path = repository.root / relative
    text = workflow(forge)
    try:
        present = path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError):
        present = "?"
    if present and not present.startswith(_FIRST):
        raise ShipError(
            f"{path} exists, but was not written by this command.",
            hint="Rename it, then run this again.",
        )
    if present != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_file(path, text)
        path.chmod(0o644)
    steps = f"Commit it: git add {relative}."
    if forge == "gitlab":
        steps = f"Include it in .gitlab-ci.yml: include: {{ local: {relative} }}. {steps}"
    return WrittenWorkflow(path, present != text, steps)


def workflow(forge: ForgeName) -> str:
    """The job's YAML. It has no secrets, and may only read the repository."""
    # A build between releases is not in the package index.
    version = re.fullmatch(r"\d+(\.\d+)*", __version__)
    package = f"agent-ratchet[tool]=={__version__}" if version else "agent-ratchet[tool]"
    head = f"{_FIRST}: recomputes every number of the evidence that a pull request commits.\n"
    if forge == "gitlab":
        lines = _indented(_VERIFY, 6)
        return f"""{head}\
ratchet-evidence:
  image: python:3.12-slim
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
      changes:
        - {EVIDENCE_FOLDER}/*.json
  script:
    - python -m pip install --quiet "{package}"
    - |
{lines}
"""
    lines = _indented(_VERIFY, 10)
    return f"""{head}\
name: ratchet evidence
on:
  pull_request:
    paths:
      - "{EVIDENCE_FOLDER}/*.json"
permissions:
  contents: read
jobs:
  verify:
    runs-on: ubuntu-latest
    timeout-minutes: 15
    steps:
      - uses: actions/checkout@v4
        with:
          persist-credentials: false
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install --quiet "{package}"
      - shell: bash
        run: |
{lines}
"""


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
