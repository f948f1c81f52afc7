"""Tells whether a live call ran what a merged pull request changed, or the version before it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

import msgspec

from ratchet.bind.recognise import Recogniser, RegisteredPrompt
from ratchet.types import Candidate, LiveOutcome, PromptTemplate, short_version

Ran: TypeAlias = Literal["merged", "before", "unknown"]


class UncountedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls since a merge that a watch left out."""

    before: int = 0
    """Calls of the previous version."""
    unknown: int = 0
    """Calls that do not say which version they ran."""

    def and_these(self, ran: Collection[Ran]) -> UncountedCalls:
        """The counts with more calls added."""
        ran = list(ran)
        return UncountedCalls(
            before=self.before + ran.count("before"), unknown=self.unknown + ran.count("unknown")
        )

    def sentence(self) -> str:
        """What a watch is waiting for while it has seen no call of the merged version."""
        if self.unknown and not self.before:
            return (
                f"Waiting for the merged version to be deployed: {_calls(self.unknown)} so far"
                f" {'does' if self.unknown == 1 else 'do'} not say which version"
                f" {'it' if self.unknown == 1 else 'they'} ran. Set RATCHET_RELEASE in the "
                "agent's environment to a value that changes with each deployment."
            )
        text = "Waiting for the merged version to be deployed"
        if not self.before:
            return f"{text}: there are no calls yet."
        which = "is" if self.before == 1 else "are all"
        text += f": {_calls(self.before)} so far {which} of the previous version"
        if self.unknown:
            text += f", and {self.unknown} {'does' if self.unknown == 1 else 'do'} not say"
        return f"{text}."

    def left_out(self) -> str:
        """What a watch says about calls it left out; empty if there are none."""
        parts = [f"{_calls(self.before)} of the previous version"] if self.before else []
        parts += [f"{_calls(self.unknown)} of an unknown version"] if self.unknown else []
        return f"{' and '.join(parts)} left out." if parts else ""


class MergedVersion:
    """What a merged pull request changed, which distinguishes its calls from earlier ones.

    A call counts as the merged version's if a changed resource is not as it was before: a person
    may have edited the pull request, so it need not be the candidate's. If a call does not say what
    resources it ran, the name of its deployment decides, once another one was seen before the
    merge.

    Args:
        baseline: What was there before.
        candidate: What was proposed.
        earlier: Outcomes from before the merge.
    """

    def __init__(
        self, baseline: Candidate, candidate: Candidate, earlier: Sequence[LiveOutcome] = ()
    ) -> None:
        self._before = {
            name: short_version(baseline.resources[name])
            for name in candidate.changed_from(baseline)
            if name in baseline.resources
        }
        self._releases = {outcome.release for outcome in earlier} - {""}

    def ran_by(self, outcome: LiveOutcome) -> Ran:
        """Which version a call ran."""
        prompt_names = [name for name in self._before if name in outcome.versions]
        if prompt_names:
            same = all(outcome.versions[name] == self._before[name] for name in prompt_names)
            return "before" if same else "merged"
        if not outcome.release or not self._releases:
            return "unknown"
        return "before" if outcome.release in self._releases else "merged"


def changed_prompts(baseline: Candidate, candidate: Candidate) -> Recogniser:
    """Recognises the changed prompts of both versions by their text."""
    return Recogniser(
        RegisteredPrompt(name, short_version(resource), resource)
        for name in candidate.changed_from(baseline)
        for version in (baseline, candidate)
        if isinstance(resource := version.resources.get(name), PromptTemplate)
    )


def _calls(count: int) -> str:
    return f"{count:,} call{'s' * (count != 1)}"
