"""Render a run's candidates as a tree with their scores and why each was kept."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from rich.tree import Tree

from ratchet.cli.console import number, one_line, short
from ratchet.cli.refusals import failing
from ratchet.learn import Proposal


class CandidateTree:
    """The proposals of a run, by candidate.

    Args:
        proposals: In the order they were judged. For a candidate with several, the last one with
            the most tasks counts.
        baseline_id: The source's own candidate.
        chosen_id: The candidate that learning selected on val; empty while learning runs.
    """

    def __init__(
        self, proposals: Sequence[Proposal], baseline_id: str, chosen_id: str = ""
    ) -> None:
        self.baseline_id = baseline_id
        self.chosen_id = chosen_id
        self.by_id: dict[str, Proposal] = {}
        for proposal in proposals:
            previous = self.by_id.get(proposal.candidate_id)
            if previous is None or proposal.tasks >= previous.tasks:
                self.by_id[proposal.candidate_id] = proposal
        self.children: dict[str, list[str]] = {}
        for id, proposal in self.by_id.items():
            if id != baseline_id:
                self.children.setdefault(self._parent(proposal), []).append(id)

    @property
    def best(self) -> Proposal | None:
        """The selected candidate; before selection, the best one, if possible not pruned early."""
        if self.chosen_id in self.by_id and self.chosen_id != self.baseline_id:
            return self.by_id[self.chosen_id]
        proposals = [p for id, p in self.by_id.items() if id != self.baseline_id and not p.refused]
        full = [p for p in proposals if not p.pruned]
        return max(full or proposals, key=lambda p: (p.value, -p.number), default=None)

    def shown(self, most: int) -> set[str]:
        """Ids of the candidates to show: the kept ones and the best, with their ancestors."""
        best = self.best
        ranked = sorted(
            (p for id, p in self.by_id.items() if id != self.baseline_id),
            key=lambda p: (p is not best, not p.accepted, p.pruned, -p.value, p.number),
        )
        selected: set[str] = set()
        for proposal in ranked:
            line = self._ancestors(proposal)
            if len(selected | line) > most:
                break
            selected |= line
        return selected

    def tree(self, most: int, *, metric: str = "", reasons: bool = True) -> Tree:
        """The tree with at most `most` candidates; each branch states how many it leaves out."""
        base = self.by_id.get(self.baseline_id)
        label = Text("source", "bold")
        if base is not None:
            label += Text(f"  {score_text(base)}")
        if metric:
            label += Text(f"  mean {metric} on train", "dim")
        tree = Tree(label, guide_style="dim")
        self._grow(tree, self.baseline_id, self.shown(most), reasons)
        return tree

    def _grow(self, tree: Tree, id: str, visible: set[str], reasons: bool) -> None:
        left_out = 0
        for child in sorted(self.children.get(id, []), key=lambda i: -self.by_id[i].value):
            if child in visible:
                self._grow(
                    tree.add(self._label(self.by_id[child], reasons)), child, visible, reasons
                )
            else:
                left_out += 1 + self._below(child)
        if left_out:
            tree.add(Text(f"{left_out} more, not kept", "dim"))

    def _label(self, proposal: Proposal, reasons: bool) -> Text:
        is_best = proposal is self.best
        text = Text(short(proposal.candidate_id), "bold green" if is_best else "bold")
        text += Text(f"  {score_text(proposal)}", "green" if is_best else "")
        if proposal.algorithm:
            text += Text(f"  {proposal.algorithm}", "cyan")
        if is_best:
            text += Text("  selected on val" if self.chosen_id else "  best", "bold green")
        elif proposal.refused:
            text += Text("  refused by the repository's tests", "red")
        elif proposal.pruned:
            text += Text("  given up early", "dim")
        if reasons:
            failed = failing(proposal) if proposal.failed else ""
            for sentence, style in (
                (proposal.reason, ""),
                (proposal.accepted, "green"),
                (failed, "red"),
            ):
                if sentence:
                    text += Text(f"\n{one_line(sentence, 200)}", style or "dim")
        return text

    def _parent(self, proposal: Proposal) -> str:
        """The parent to show a candidate under: the first known one that is not its descendant."""
        for parent in proposal.parents:
            if parent == self.baseline_id or parent in self.by_id:
                return parent
        return self.baseline_id

    def _ancestors(self, proposal: Proposal) -> set[str]:
        line: set[str] = set()
        id = proposal.candidate_id
        while id != self.baseline_id and id not in line:
            line.add(id)
            id = self._parent(self.by_id[id])
        return line

    def _below(self, id: str) -> int:
        descendants, waiting = {id}, [id]
        while waiting:
            for child in self.children.get(waiting.pop(), []):
                if child not in descendants:
                    descendants.add(child)
                    waiting.append(child)
        return len(descendants) - 1


def score_text(proposal: Proposal) -> str:
    """Mean score of a candidate, its interval, and its number of tasks."""
    text = number(proposal.value)
    if proposal.low is not None and proposal.high is not None:
        text += f" [{number(proposal.low)}, {number(proposal.high)}]"
    return f"{text} on {proposal.tasks} task{'' if proposal.tasks == 1 else 's'}"
