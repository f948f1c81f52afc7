"""The pull request's text: the change, the proof, how to verify it and how to undo it.

All numbers come from the Decision, without rounding up.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ratchet._private_files import make_folder
from ratchet.ship.check import TestReport
from ratchet.ship.edit import values_of
from ratchet.ship.evidence_text import ImprovedTask, e_value_plot, improved_tasks
from ratchet.ship.headline import change_label, headline
from ratchet.source.literals.data_values import same_value
from ratchet.types import (
    Candidate,
    Code,
    Decision,
    FrozenResult,
    GuardrailResult,
    PromptTemplate,
    ShipError,
)
from ratchet.types.interval_text import interval_ends
from ratchet.types.label import RIGHT_FROM
from ratchet.types.wording import counted

TITLE_LIMIT = 200
"""Maximum length of a title in characters; GitLab allows 255, with a prefix for drafts."""

BODY_LIMIT = 60_000
"""Maximum length of a body in characters; GitHub allows 65,536."""

_CELL = 120
_PATCH = re.compile(r"<details>\n<summary>The patch</summary>.*?\n\n</details>(?=\n\n|\n\Z)", re.S)
_RUN = re.compile(r"`+")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!])")


def pull_request(
    *,
    branch: str,
    base: str,
    commit: str,
    baseline: Candidate,
    candidate: Candidate,
    decision: Decision,
    evidence: str,
    content: dict[str, Any],
    experiment_id: str,
    release_id: str,
    agent_entry: str,
    diff: str,
    tests: TestReport,
    notes: Sequence[str] = (),
    server_url: str = "",
    traces: Mapping[str, str] | None = None,
    problem: str = "",
) -> str:
    """The pull request as Markdown: what a reviewer needs, then folded details.

    Args:
        branch: Name of the branch.
        base: Full hash of the commit that it starts from.
        commit: Full hash of its commit.
        baseline: The source's state.
        candidate: The candidate that was proved better.
        decision: The experiment's outcome.
        evidence: Path of the evidence file, as shown.
        content: Content of the evidence file.
        experiment_id: Id of the experiment.
        release_id: Id of the release.
        agent_entry: The agent, as MODULE:FUNCTION; or empty.
        diff: The patch.
        tests: Result of the repository's own tests.
        notes: Further sentences.
        server_url: Address of the server that has the rollouts; or empty.
        traces: The live trace that a task was captured from, by the task's id.
        problem: The problem of live traffic that it is for; or empty.
    """
    names = candidate.changed_from(baseline)
    proved = decision.verdict == "promote"
    changed = ", ".join(code(change_label(name, baseline, candidate)) for name in names)
    # A draft's numbers change when tasks are added, and its title stays.
    title = (
        f"# {headline(changed, code(decision.metric), decision)}"
        if proved
        else f"# Not proved: change {changed} for {code(decision.metric)}"
    )
    of = f" of {code(agent_entry)}" if agent_entry else ""
    parts = [
        title,
        *([] if proved else [_not_proved(decision)]),
        f"This branch, {code(branch)}, changes only the values{of} that are listed below.",
        *_failures(improved_tasks(content, server_url, traces), problem),
        "## What changes",
        *(_change(name, baseline, candidate) for name in names),
        *proof_section(decision),
        "## Tests",
        _tests(tests),
        "## Check it",
        "To recompute every number of the proof from the paired scores:",
        fence(f"ratchet verify {shlex.quote(evidence)}", "sh"),
        "## Undo it",
        "To undo it (before the merge, this deletes the branch; after it, this makes a branch "
        "that restores the old source):",
        fence(f"ratchet rollback {release_id[:12]}", "sh"),
    ]
    if plot := e_value_plot(content):
        parts.append(folded("The evidence, pair by pair", fence(plot, "mermaid")))
    if candidate.reason:
        why = f"Proposed by {code(candidate.algorithm)}, because:"
        parts.append(folded("Why it was proposed", why, fence(candidate.reason, "text")))
    parts.append(folded("The patch", fence(diff, "diff")))
    if notes:
        parts.append(folded("Notes", "\n".join(f"- {plain(note)}" for note in notes)))
    parts.append(
        folded(
            "Ids",
            f"Candidate {code(candidate.id)}, baseline {code(baseline.id)}, experiment"
            f" {code(experiment_id)}, base commit {code(base)}, commit {code(commit)}.",
        )
    )
    return "\n\n".join(parts) + "\n"


def folded(summary: str, *paragraphs: str) -> str:
    """A section that is folded until the reader opens it."""
    inner = "\n\n".join(paragraphs)
    return f"<details>\n<summary>{summary}</summary>\n\n{inner}\n\n</details>"


def _failures(tasks: Sequence[ImprovedTask], problem: str) -> list[str]:
    said = ["## What failed", *([plain(problem)] if problem else [])]
    if not tasks:
        return said if problem else []
    live = any(task.trace for task in tasks)
    head = ["task that gained most", "before", "after", "rollouts", *(["live trace"] * live)]
    rows = [
        [code(task.task), task.before, task.after, ", ".join(task.rollouts), *([task.trace] * live)]
        for task in tasks
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return [*said, "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])]


def request_text(text: str) -> tuple[str, str]:
    """Title and body of the request at a forge, from the text that `pull_request` returned."""
    title, _, body = text.partition("\n")
    if len(body) > BODY_LIMIT:
        body = _PATCH.sub("The patch is too long for this page; it is in the branch.", body)
    if len(body) > BODY_LIMIT:
        body = body[:BODY_LIMIT].rpartition("\n\n")[0]
    return title.removeprefix("# ").replace("`", "")[:TITLE_LIMIT], body.strip() + "\n"


def shown_path(path: Path, root: Path) -> str:
    """A path relative to the repository, if it is inside."""
    path = path.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def proof_section(decision: Decision) -> list[str]:
    """The section about the proof, with its heading."""
    sentence = [fence(decision.sentence, "text")] if decision.sentence else []
    heading = "## The proof" if decision.verdict == "promote" else "## The comparison (not a proof)"
    return [
        heading,
        _proof(decision),
        *_guardrails(decision.guardrails),
        *_frozen(decision.frozen),
        *sentence,
    ]


def _not_proved(decision: Decision) -> str:
    more = decision.more_pairs
    tasks = "test task" if more == 1 else "test tasks"
    return (
        f"**Not proved.** The candidate looks better on {counted(decision.pairs, 'test task')}, "
        "which are too few to prove it: it may be no better, or even worse. Only your merge "
        "releases it."
        f" About {more} more {tasks} would prove a gain of this size; once they are added, `ratchet"
        " improve` continues the same comparison."
    )


def write_text_file(path: Path, text: str) -> None:
    """Write a file atomically.

    Raises:
        ShipError: The folder is not writable, or the disk is full.
    """
    temporary = ""
    try:
        make_folder(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise ShipError(
            f"{path} cannot be written: {error.strerror}.",
            hint="Make the folder writable or free some space, then run the same command again.",
        ) from None


def code(text: Any) -> str:
    """Format inline code whose backticks cannot occur in the content, for tables and text."""
    flat = " ".join(str(text).split()) or " "
    if len(flat) > _CELL:
        flat = flat[:_CELL] + "…"
    longest = max((len(run) for run in _RUN.findall(flat)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}".replace("|", "\\|")


def fence(text: str, language: str) -> str:
    """Format a fenced block whose fence cannot occur in the content."""
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip(chr(10))}\n{ticks}"


def plain(text: str) -> str:
    """Escape Markdown in one line of prose."""
    # The zero-width space prevents a generated text from mentioning a user.
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", "@\u200b")


def _change(name: str, baseline: Candidate, candidate: Candidate) -> str:
    old, new = baseline.resources[name], candidate.resources[name]
    if isinstance(new, (PromptTemplate, Code)):
        what = "Prompt" if isinstance(new, PromptTemplate) else "Function"
        return f"{what} {code(name)}: see the patch below."
    before, after = values_of(old), values_of(new)
    rows = [
        f"| {code(f'{name}.{key}')} | {code(repr(before.get(key)))} |"
        f" {code(repr(after.get(key)))} |"
        for key in sorted(before.keys() | after.keys())
        if not same_value(before.get(key), after.get(key))
    ]
    return "\n".join(["| | before | after |", "|---|---|---|", *rows])


def _proof(decision: Decision) -> str:
    gain = decision.candidate - decision.baseline
    low, high = interval_ends(*decision.interval, 4)
    cells = {
        "metric": code(decision.metric),
        "baseline": f"{decision.baseline:.4f}",
        "candidate": f"{decision.candidate:.4f}",
        "gain": f"{gain:+.4f}",
        **({"may score lower by": f"{decision.margin:g}"} if decision.margin else {}),
        f"interval at level {1 - decision.alpha:.4g}": f"[{low}, {high}]",
        "pairs": f"{decision.pairs}",
        "e-value": f"{decision.e_value:.4g}",
        "needed": f"{1 / decision.alpha:.4g}",
    }
    if decision.repetitions > 1:
        cells["runs of each task per candidate"] = f"{decision.repetitions}"
    head, rule = f"| {' | '.join(cells)} |", "|---" * len(cells) + "|"
    return f"{head}\n{rule}\n| {' | '.join(cells.values())} |"


def _guardrails(guardrails: Sequence[GuardrailResult]) -> list[str]:
    if not guardrails:
        return ["No guardrails were configured."]
    rows = [
        f"| {code(g.metric)} | {_mean(g.baseline, g.unit)} | {_mean(g.candidate, g.unit)} |"
        f" {plain(g.margin_text)} | {g.e_value:.4g} | {_standing(g)} |"
        for g in guardrails
    ]
    head = "| guardrail | baseline | candidate | may worsen by | e-value | |"
    return ["\n".join([head, "|---|---|---|---|---|---|", *rows])]


def _frozen(results: Sequence[FrozenResult]) -> list[str]:
    """The frozen sets of fixed problems, with the tasks that the candidate broke and fixed."""
    if not results:
        return []
    rows = [
        f"| {code(r.title)} | {_mean(r.baseline, '')} | {_mean(r.candidate, '')} | {r.margin:g} |"
        f" {r.draws} | {r.e_value:.4g} | {_held(r)} |"
        for r in results
    ]
    head = "| fixed problem | baseline | candidate | may worsen by | draws | e-value | |"
    changes = [
        f"- {code(r.title)}: {what} {', '.join(code(task) for task in tasks)}"
        for r in results
        for what, tasks in (("broken", r.broken), ("fixed", r.fixed))
        if tasks
    ]
    return [
        "### Problems fixed before",
        "\n".join([head, "|---|---|---|---|---|---|---|", *rows]),
        f"A task is broken if the baseline was right (mean of its draws at least {RIGHT_FROM:g}) "
        "and the candidate was not, and fixed in the opposite case. A task has few draws, so an "
        "answer may be wrong by chance; the test uses the mean of each set."
        if changes
        else "By the mean of its draws, no frozen task was broken or fixed.",
        *(["\n".join(changes)] if changes else []),
    ]


def _held(result: FrozenResult) -> str:
    if not result.passed:
        return "not proved"
    return "nothing to lose" if result.baseline == 0.0 else "holds"


def _mean(value: float | None, unit: str) -> str:
    return "not measured" if value is None else f"{value:.4g} {plain(unit)}".rstrip()


def _standing(guardrail: GuardrailResult) -> str:
    if not guardrail.measured:
        return "not measured"
    return "holds" if guardrail.passed else "not proved"


def _tests(tests: TestReport) -> str:
    if tests.outcome == "not_configured":
        return f"**{tests.sentence()}**"
    passed = f"The repository's own tests passed on this commit: {code(tests.command)}"
    return f"{passed}, {tests.contained}." if tests.contained else f"{passed}."
