"""Scores what a look finds and that its wiring can be taken back: of look-alikes, and of real
checkouts if a folder of them is named.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from ratchet.wire import RepositoryLook, look
from tests.wire.repositories import LOOK_ALIKES, LookAlike
from tests.wire.wiring import RIGHTS, wired_and_undone, with_git

NEAR = 3
"""Lines by which a place may differ."""


class Tally:
    """Counts over repositories."""

    def __init__(self) -> None:
        self.repos = self.framework = self.entry = 0
        self.right = self.found = self.hit = self.expected = self.acted = self.acts = 0
        self.wired = 0
        self.wiring = dict.fromkeys(RIGHTS, 0)
        self.exact = dict.fromkeys(("tests", "tracing", "data"), 0)

    def add(self, found: RepositoryLook, case: LookAlike) -> None:
        """Count one repository; what is missing is printed."""
        self.repos += 1
        named = [one.name for one in found.frameworks]
        self.framework += named[:1] == [case.framework]
        entries = {f"{one.place.path}:{one.name}" for one in found.entries}
        entries |= {
            f"{one.place.path}:{one.name} started"
            for one in found.entries
            if "started by" in one.reason
        }
        paths = {one.place.path for one in found.entries}
        self.entry += not case.entry or case.entry in entries or case.entry in paths
        places = [(one.place.path, one.place.line) for one in found.prompts]
        wanted = [(one.partition(":")[0], int(one.partition(":")[2] or 0)) for one in case.prompts]
        extra = [one for one in places if not any(_near(one, other) for other in wanted)]
        missing = [one for one in wanted if not any(_near(other, one) for other in places)]
        self.found += len(places)
        self.right += len(places) - len(extra)
        self.expected += len(wanted)
        self.hit += len(wanted) - len(missing)
        effects = {f"{one.kind} {one.place.path}" for one in found.side_effects}
        lost = [one for one in case.effects if one not in effects]
        self.acts += len(case.effects)
        self.acted += len(case.effects) - len(lost)
        wrong = []
        for fact, shown in _facts(found).items():
            expected = getattr(case, fact)
            # Of a real checkout it is only known whether there are any.
            right = set(shown) == set(expected) if case.files else bool(shown) == bool(expected)
            self.exact[fact] += right
            if not right:
                wrong.append(f"{fact}: {shown}")
        print(f"{case.name}: {named[:1]} extra={extra} missing={missing} lost={lost} wrong={wrong}")

    def wire(self, root: Path, found: RepositoryLook, name: str) -> None:
        """Wire one repository, wire it again, take it back, and count what went right."""
        if not found.entries:
            return
        wrong = wired_and_undone(root, found)
        self.wired += 1
        for right, why in wrong.items():
            self.wiring[right] += not why
        if any(wrong.values()):
            print(f"{name}: {wrong}")

    def result(self) -> dict[str, Any]:
        """The scores, each between 0 and 1."""
        return {
            "repos": self.repos,
            "framework": self.framework / self.repos,
            "entry": self.entry / self.repos,
            "prompt_precision": round(self.right / max(self.found, 1), 4),
            "prompt_recall": round(self.hit / max(self.expected, 1), 4),
            "side_effect_recall": self.acted / self.acts if self.acts else 1.0,
            **{fact: round(count / self.repos, 4) for fact, count in self.exact.items()},
            **{right: round(n / self.wired, 4) for right, n in self.wiring.items() if self.wired},
        }


def _facts(found: RepositoryLook) -> dict[str, list[str]]:
    """Tests, tracing and data, as look-alikes state them."""
    return {
        "tests": [f"{one.project}: {one.command}" for one in found.tests],
        "tracing": [
            f"{one.name} {one.place.path}" + (" global" if one.provider else "")
            for one in found.tracing
        ],
        "data": [
            f"{one.place.path}: {', '.join(one.inputs)} -> {', '.join(one.expected)}"
            for one in found.task_data
        ],
    }


def _near(one: tuple[str, int], other: tuple[str, int]) -> bool:
    if one[0] != other[0]:
        return False
    return not (one[1] and other[1]) or abs(one[1] - other[1]) <= NEAR


def of_checkouts(folder: Path, tally: Tally) -> None:
    """Add real checkouts, by the facts of `repos.json` in their folder."""
    for facts in json.loads((folder / "repos.json").read_text()):
        root = folder / facts["repo"].rpartition("/")[2]
        places = [
            found.group()
            for one in facts["prompts"]
            if (found := re.match(r"[\w./-]+\.\w+(?::\d+)?", one))
        ]
        if not root.is_dir() or not places:
            continue  # facts that name no place cannot be scored
        framework = re.sub(r"-(?:\d[\w.]*|workflow)$", "", facts["framework"])
        entry = next(
            (e.group() for one in facts["entry"] if (e := re.search(r"[\w./-]+\.(?:py|ts)", one))),
            "",
        )
        acts = tuple(
            found.group(1)
            for one in facts["side_effects"]
            if (found := re.search(r"(\S+\.\w+):\d+$", one))
        )
        made = look(root)
        kinds = {one.place.path: one.kind for one in made.side_effects}
        effects = tuple(f"{kinds.get(path, 'missing')} {path}" for path in acts)
        told = str(facts["tests"])
        tests = () if re.search(r"False|only|empty|not a test", told) else (told,)
        case = LookAlike(
            facts["repo"],
            {},
            framework,
            entry,
            tuple(places),
            effects,
            tests,
            tuple(facts["tracing"]),
            tuple(facts["datasets"]),
        )
        tally.add(made, case)
        with tempfile.TemporaryDirectory() as copies:
            copy = with_git(root, Path(copies))
            tally.wire(copy, look(copy), case.name)


def main() -> None:
    """Print the scores; the last line is one JSON object."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for case in LOOK_ALIKES:
            root = case.write(Path(folder))
            found = look(root)
            tally.add(found, case)
            tally.wire(root, found, case.name)
    if os.environ.get("RATCHET_WIRE_REPOS"):
        of_checkouts(Path(os.environ["RATCHET_WIRE_REPOS"]), tally)
    print(json.dumps(tally.result()))


if __name__ == "__main__":
    main()
