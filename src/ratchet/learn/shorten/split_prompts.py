"""All prompts of an agent as parts that may be left out, and the prompts without some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ratchet.learn.shorten.parts import PromptPart, joined, split_prompt, tokens_in
from ratchet.types import InputError, PromptTemplate
from ratchet.types.wording import counted

CENTRAL = 0.2
"""How far from its middle, as a share, a group may be cut to end at a paragraph."""


class SplitPrompts:
    """The parts of several prompts that may be left out, numbered across all of them.

    Args:
        prompts: The prompts by name.
    """

    def __init__(self, prompts: Mapping[str, PromptTemplate]) -> None:
        self.prompts = dict(prompts)
        self._split = {name: split_prompt(prompt) for name, prompt in prompts.items()}
        self._parts: list[tuple[str, int, PromptPart]] = [
            (name, number, part)
            for name, parts in self._split.items()
            for number, part in enumerate(parts)
            if not part.fixed
        ]
        self.count = len(self._parts)
        """Parts that may be left out."""

    def without(
        self, left_out: Iterable[int], *, spaced: bool = False
    ) -> dict[str, PromptTemplate] | None:
        """The prompts that change when parts are left out; None if nothing remains of one.

        Args:
            left_out: Numbers of the parts.
            spaced: Put a blank line more into each prompt, which says nothing else.
        """
        gone: dict[str, set[int]] = {name: set() for name in self.prompts if spaced}
        for part in left_out:
            name, number, _ = self._parts[part]
            gone.setdefault(name, set()).add(number)
        changed = {}
        for name, numbers in gone.items():
            parts = self._split[name]
            text = joined(_spaced(parts) if spaced else parts, numbers)
            if not text.strip():
                return None
            try:
                changed[name] = PromptTemplate(text, self.prompts[name].engine)
            except InputError:
                return None
        return changed

    def reason(self, left_out: Collection[int], changed: Mapping[str, PromptTemplate]) -> str:
        """What was left out of prompts, in a sentence."""
        was = sum(tokens_in(self.prompts[name].text) for name in changed)
        now = sum(tokens_in(prompt.text) for prompt in changed.values())
        names = ", ".join(map(repr, sorted(changed)))
        verb = "is" if len(left_out) == 1 else "are"
        return (
            f"{len(left_out)} of {counted(self.count, 'part')} of {names} {verb} left out: about "
            f"{now:,} tokens instead of {was:,}."
        )

    def tokens(self, parts: Iterable[int]) -> int:
        """Estimated tokens of parts."""
        return sum(self._parts[part][2].tokens for part in parts)

    def halves(self, parts: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Two groups of about equal length, cut between paragraphs where one ends near the middle.

        Args:
            parts: Two parts or more, in order.
        """
        total, passed = self.tokens(parts), 0
        cuts: list[tuple[int, float, int]] = []
        for count in range(1, len(parts)):
            part = self._parts[parts[count - 1]][2]
            passed += part.tokens
            aside = abs(passed / total - 0.5)
            strength = min(part.after.count("\n"), 2) if aside <= CENTRAL else -1
            cuts.append((-strength, aside, count))
        cut = min(cuts)[2]
        return parts[:cut], parts[cut:]


def _spaced(parts: Sequence[PromptPart]) -> list[PromptPart]:
    """A prompt with an extra blank line after its first paragraph, or else at its end."""
    first = next((n for n, part in enumerate(parts[:-1]) if "\n" in part.after), len(parts) - 1)
    widened = parts[first]._replace(after=parts[first].after + "\n")
    return [*parts[:first], widened, *parts[first + 1 :]]
