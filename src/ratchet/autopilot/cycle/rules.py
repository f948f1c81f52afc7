"""The rule of each state of a cycle: stay and wait, or move on, and what the move sets off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import msgspec

from ratchet.autopilot.config import Config
from ratchet.autopilot.cycle.moves import (
    WORKS,
    Move,
    Order,
    Stay,
    Step,
    Taken,
    back,
    cleanup,
    drop,
    hold,
)
from ratchet.autopilot.cycle.parts import Parts, StageMeasurement
from ratchet.autopilot.cycle.policy import (
    PolicyRefusal,
    Wait,
    approved,
    day_of,
    may_change,
    may_learn,
    may_propose,
    may_touch,
)
from ratchet.store import Store
from ratchet.types import (
    CYCLE_LIMITS,
    ActionKind,
    Cycle,
    CycleAction,
    CycleState,
    OperatorCommand,
    Spending,
)
from ratchet.types.cycle import DAY_S
from ratchet.types.wording import counted

CAPTURE_S = 60.0
"""Seconds between searches for more tasks."""

MEASURES = "It is measuring."
"""Start of the reason why a live stage waits."""


class StateRules:
    """The rules of the states. They read the store, and write nothing.

    Args:
        agent: The agent's name.
        config: The project's configuration.
        store: Its store.
        parts: What measures.
        clock: Unix seconds.
    """

    def __init__(
        self,
        agent: str,
        config: Config,
        store: Store,
        parts: Parts,
        clock: Callable[[], float],
    ) -> None:
        self.agent = agent
        self.config = config
        self.policy = config.autopilot
        self.store = store
        self.parts = parts
        self.clock = clock

    async def look(self, cycle: Cycle) -> Step:
        """Apply the rule of the cycle's state."""
        return await self.BY_STATE[cycle.state](self, cycle)

    # ---- what holds in every state

    def told(self, cycle: Cycle) -> Move | None:
        """End a cycle that a person stopped."""
        for command in self.store.operator_commands.about(cycle.id):
            if command.verb == "stop" and cycle.state != "rollback":
                return self._stopped(cycle, command)
        return None

    def _stopped(self, cycle: Cycle, command: OperatorCommand) -> Move:
        rule = f"{command.by} stopped it. {command.reason}".strip()
        if cycle.state == "activate":  # half of it may be done: undo it
            return back(rule, cycle, actor=command.by)
        target: CycleState = "done" if cycle.state == "watch" else "dropped"
        return Move(
            target=target,
            rule=rule,
            changes={"message": rule},
            actions=cleanup(cycle, rule),
            actor=command.by,
        )

    def overdue(self, cycle: Cycle) -> Move | None:
        """Leave a state that took longer than its limit."""
        limit = CYCLE_LIMITS.get(cycle.state)
        if limit is None or self.clock() - cycle.entered_at <= limit[0]:
            return None
        days = limit[0] / DAY_S
        span = counted(days, "day") if days >= 1 else f"{limit[0] / 60:g} minutes"
        rule = f"The cycle was in the state {cycle.state.replace('_', ' ')} for more than {span}."
        if cycle.waits:
            rule += f" {cycle.waits}"
        if limit[1] == "rollback":
            return back(rule, cycle)
        if limit[1] == "held":
            return hold(cycle, rule)
        return drop(cycle, rule)

    # ---- the states

    async def _capture(self, cycle: Cycle) -> Step:
        if paused := self._paused():
            return paused
        captured = self.parts.capture(cycle)
        if captured.tasks < self.policy.min_tasks:
            return Wait(
                f"The dataset has {counted(captured.tasks, 'task')} to learn from, but"
                f" {self.policy.min_tasks} are needed (min_tasks).",
                self.clock() + CAPTURE_S,
            )
        wait = may_learn(self.policy, self.spent(), self.clock())
        if wait is not None:
            return wait
        spent = self.spent()
        rollouts = self.policy.rollouts_per_day - spent.rollouts
        dollars = self.policy.dollars_per_day - spent.dollars
        return Move(
            target="learn",
            rule=f"{counted(captured.tasks, 'task')}, {captured.added} of them new, and budget left"
            " today.",
            changes={"dataset": captured.dataset, "rollouts": rollouts, "dollars": dollars},
            # Taken in full until it is known what learning took.
            spent=(Taken("learn", Spending(rollouts=rollouts, dollars=dollars), self.clock()),),
        )

    async def _learn(self, cycle: Cycle) -> Step:
        if paused := self._paused():
            return paused
        if cycle.candidate_id:  # proved, and kept from going on
            proved = self.store.experiments.get(cycle.experiment_id)
            assert proved is not None
            assert proved.decision is not None
            return self._onward(cycle, proved.decision.sentence)
        learned = await self.parts.learn(cycle)
        learned_fields = {
            "run_id": learned.run_id,
            "baseline_id": learned.baseline_id,
            "candidate_id": learned.candidate_id,
            "experiment_id": learned.experiment_id,
            "runtime_refusal": learned.runtime_refusal,
        }
        amount = Spending(rollouts=learned.rollouts, dollars=learned.dollars)
        spent = Taken("learn", amount, cycle.entered_at)
        if learned.verdict == "waits":
            return Stay(changes={"run_id": learned.run_id}, wait=Wait(learned.sentence))
        ended = None
        if learned.verdict in ("no_gain", "not_proved"):
            ended = learned.sentence
        elif self._is_quarantined(learned.candidate_id):
            ended = "The same candidate was rolled back before; it is not tried again."
        elif refusal := may_touch(self.policy, learned.resources, learned.files):
            ended = refusal.why
        elif learned.request_refusal and (self.policy.mode != "auto" or learned.runtime_refusal):
            ended = f"It was proved better, but cannot be proposed: {learned.request_refusal}"
        if ended is not None:
            return Move(
                target="dropped",
                rule=ended,
                changes={**learned_fields, "message": ended},
                spent=(spent,),
            )
        cycle = msgspec.structs.replace(cycle, **learned_fields)
        step = self._onward(cycle, learned.sentence)
        changes = {**learned_fields, **step.changes}
        return msgspec.structs.replace(step, changes=changes, spent=(*step.spent, spent))

    async def _shadow(self, cycle: Cycle) -> Step:
        if paused := self._paused():
            return paused
        if decision := _ended(cycle, "shadow"):
            return self._onward(cycle, decision)
        measured = await self.parts.shadow(cycle)
        verdict, sentence = measured.decision.verdict, measured.decision.sentence
        noted = self._noted(cycle, measured)
        if verdict is None:
            return Stay(changes={"progress": measured.progress}, wait=_measuring(measured))
        if verdict == "pass":
            return self._onward(cycle, sentence, noted)
        if verdict == "harm":
            return drop(cycle, sentence, **noted)
        return hold(cycle, sentence, **noted)

    async def _approval(self, cycle: Cycle) -> Step:
        commands = self.store.operator_commands.about(cycle.id)
        approval = approved(self.policy, commands, cycle.candidate_id)
        if isinstance(approval, Wait):
            return approval
        if isinstance(approval, PolicyRefusal):
            return drop(cycle, approval.why)
        step = self._onward(cycle, f"{approval.by} approved it.")
        return msgspec.structs.replace(step, actor=approval.by) if isinstance(step, Move) else step

    async def _canary(self, cycle: Cycle) -> Step:
        if not _ended(cycle, "canary"):
            measured = await self.parts.canary(cycle)
            verdict, sentence = measured.decision.verdict, measured.decision.sentence
            noted = self._noted(cycle, measured)
            if verdict == "harm":
                return back(sentence, cycle, **noted)
            if verdict is None:
                return self._next_share(cycle, measured)
            if verdict != "pass":
                return hold(cycle, sentence, **noted)
            if paused := self._paused():
                return Stay(changes=noted, wait=paused)
            move = self._onward(cycle, sentence, noted)
        else:
            if paused := self._paused():
                return paused
            move = self._onward(cycle, _ended(cycle, "canary"))
        if isinstance(move, Move):  # whatever follows, the canary's split is over after it
            actions = (*move.actions, ("split", {"enrolled": 0.0}))
            return msgspec.structs.replace(move, actions=actions)
        return move

    def _next_share(self, cycle: Cycle, measured: StageMeasurement) -> Step:
        """The canary's next step, once the current one has run its hours and units without harm."""
        canary, now = self.config.canary, self.clock()
        progress = {"progress": measured.progress}
        units = measured.units - cycle.units_before_step
        waited_h = (now - cycle.entered_at) / 3600
        if (
            cycle.step + 1 >= len(canary.steps)
            or units < canary.step_units
            or waited_h < canary.step_hours
        ):
            return Stay(changes=progress, wait=_measuring(measured))
        if wait := self._paused() or may_change(self.policy, now):
            return Stay(changes=progress, wait=wait)
        share = canary.steps[cycle.step + 1]
        return Move(
            target="canary",
            rule=f"{units} units in {waited_h:.1f} h without harm: {share:.0%} take part now.",
            changes={**progress, "step": cycle.step + 1, "units_before_step": measured.units},
            actions=(("split", {"enrolled": share}),),
        )

    async def _pull_request(self, cycle: Cycle) -> Step:
        propose = self._last(cycle, "propose")
        if propose is not None and propose.state != "done":
            return _trying(propose, "The pull request is not open yet") or WORKS
        if not cycle.request and propose is not None:
            return Stay(changes=_fields(propose))
        state = await self.parts.request_state(cycle)
        if state == "merged":
            return Move(target="watch", rule="The pull request was merged.")
        if state == "closed":
            rule = "The pull request was closed unmerged."
            return Move(target="dropped", rule=rule, changes={"message": rule})
        return Wait(f"It waits for the merge of {cycle.request or 'the pull request'}.")

    async def _activate(self, cycle: Cycle) -> Step:
        activate = self._last(cycle, "activate")
        assert activate is not None
        if activate.state != "done":
            return _trying(activate, "The release is not active yet") or WORKS
        return Move(target="watch", rule="The release is active.", changes=_fields(activate))

    async def _watch(self, cycle: Cycle) -> Step:
        if self._replaced(cycle):
            rule = "Another release has been made since, so this one is no longer watched."
            return Move(target="done", rule=rule, changes={"message": rule})
        measured = await self.parts.watch(cycle)
        verdict, sentence = measured.decision.verdict, measured.decision.sentence
        noted = self._noted(cycle, measured)
        if verdict == "alarm":
            return back(sentence, cycle, **noted)
        # A merged version is watched from the first of its calls on.
        seen_at = measured.progress.get("seen_at")
        days = (self.clock() - (seen_at or cycle.entered_at)) / DAY_S
        if verdict is None and days <= self.config.watch.days:
            return Stay(changes={"progress": measured.progress}, wait=_measuring(measured))
        if verdict is None and cycle.request and seen_at is None:
            sentence = f"Not watched within {counted(self.config.watch.days, 'day')}. {sentence}"
        elif verdict is None:
            sentence = f"No alarm within {counted(self.config.watch.days, 'day')}. {sentence}"
        actions: tuple[Order, ...] = ()
        if verdict == "drift":
            actions = (("notify", {"event": "drift", "text": sentence}),)
        changes = {**noted, "message": sentence}
        return Move(target="done", rule=sentence, changes=changes, actions=actions)

    def _replaced(self, cycle: Cycle) -> bool:
        active = self.parts.active()
        if cycle.request:
            return active is not None and active.activated_at > cycle.entered_at
        return active is None or active.candidate_id != cycle.candidate_id

    async def _rollback(self, cycle: Cycle) -> Step:
        actions = self.store.outbox.list(cycle.id)
        undoing = [a for a in actions if a.kind in ("split", "deactivate", "revert")]
        open_ones = [a for a in undoing if a.state != "done"]
        if open_ones:
            return _trying(open_ones[0], "The rollback is not done yet") or WORKS
        changes = _fields(undoing[-1]) if undoing else {}
        return Move(target="quarantined", rule="The rollback is done.", changes=changes)

    async def _held(self, cycle: Cycle) -> Step:
        held_at = (cycle.held_at or "").replace("_", " ")
        why = Wait(f"Held at {held_at}: what is not proved is not shipped.")
        if cycle.held_at != "pull_request" or not cycle.request:
            return why
        state = await self.parts.request_state(cycle)
        if state == "merged":
            return Move(target="watch", rule="The pull request was merged.")
        if state == "closed":
            rule = "The pull request was closed unmerged."
            return Move(target="dropped", rule=rule, changes={"message": rule})
        return Wait(f"It waits for the merge of {cycle.request}.")

    BY_STATE: ClassVar[dict[CycleState, Callable[[Any, Cycle], Awaitable[Step]]]] = {
        "capture": _capture,
        "learn": _learn,
        "shadow": _shadow,
        "approval": _approval,
        "canary": _canary,
        "pull_request": _pull_request,
        "activate": _activate,
        "watch": _watch,
        "rollback": _rollback,
        "held": _held,
    }
    """The rule of each state that can be left."""

    # ---- from one stage to the next

    def _onward(self, cycle: Cycle, why: str, changes: dict[str, Any] | None = None) -> Move | Stay:
        """The move to the next stage of the policy, or why it has to wait."""
        stages: list[CycleState] = ["learn"]
        no_shadow = "" if not self.config.shadow.enabled else self.parts.why_no_shadow(cycle)
        if self.config.shadow.enabled and not no_shadow:
            stages.append("shadow")
        if self.policy.approval:
            stages.append("approval")
        if self.policy.mode != "propose" and not cycle.runtime_refusal:
            stages.append("canary")
        at_run_time = self.policy.mode == "auto" and not cycle.runtime_refusal
        stages.append("activate" if at_run_time else "pull_request")
        order: list[CycleState] = ["learn", "shadow", "approval", "canary"]
        after = [*order[order.index(cycle.state) + 1 :], "activate", "pull_request"]
        target = next(stage for stage in stages if stage in after)
        changes = dict(changes or {})
        if cycle.state == "learn" and no_shadow:
            why = f"{why} No shadow stage: {no_shadow}"
        now = self.clock()
        wait: Wait | None = None
        spent: tuple[Taken, ...] = ()
        actions: tuple[Order, ...] = ()
        if target == "shadow":
            pass
        elif target == "approval":
            text = f"Candidate {cycle.candidate_id[:12]} waits for approval. {why}"
            actions = (("notify", {"event": "approval", "text": text}),)
        elif wait := may_change(self.policy, now):
            pass
        elif target == "canary":
            share = self.config.canary.steps[0]
            actions = (("split", {"enrolled": share}),)
            changes |= {"step": 0, "units_before_step": 0}
        elif target == "pull_request":
            wait = may_propose(self.policy, self.spent(), now)
            actions = (("propose", {}),)
            spent = (Taken("propose", Spending(requests=1), now),)
        else:
            text = f"Candidate {cycle.candidate_id[:12]} is released. {why}"
            actions = (("activate", {}), ("notify", {"event": "released", "text": text}))
        if wait is not None:
            return Stay(changes=changes, wait=wait)
        return Move(target=target, rule=why, changes=changes, actions=actions, spent=spent)

    def _noted(self, cycle: Cycle, measured: StageMeasurement) -> dict[str, Any]:
        """The changes that note a stage's end."""
        return {"decisions": (*cycle.decisions, measured.decision), "progress": measured.progress}

    def _paused(self) -> Wait | None:
        command = self.store.operator_commands.pause(self.agent)
        if command is None:
            return None
        why = f" {command.reason}" if command.reason else ""
        return Wait(
            f"{command.by} paused the autopilot.{why} To continue: ratchet autopilot resume."
        )

    def spent(self) -> Spending:
        """What was taken of today's budget."""
        return self.store.cycles.spent(self.agent, day_of(self.policy, self.clock()))

    def _is_quarantined(self, candidate_id: str) -> bool:
        return any(
            cycle.state == "quarantined" and cycle.candidate_id == candidate_id
            for cycle in self.store.cycles.list(self.agent, limit=1000)
        )

    def _last(self, cycle: Cycle, kind: ActionKind) -> CycleAction | None:
        actions = [a for a in self.store.outbox.list(cycle.id) if a.kind == kind]
        return actions[-1] if actions else None


def _ended(cycle: Cycle, stage: str) -> str:
    """The sentence of a stage that passed but could not be left yet; empty otherwise."""
    passed = [d for d in cycle.decisions if d.stage == stage and d.verdict == "pass"]
    return passed[-1].sentence if passed else ""


def _measuring(measured: StageMeasurement) -> Wait:
    return Wait(f"{MEASURES} {measured.decision.sentence}".strip())


def _trying(action: CycleAction, what: str) -> Wait | None:
    if not action.error:
        return None
    return Wait(f"{what}: {action.error}", action.next_at)


def _fields(action: CycleAction) -> dict[str, Any]:
    """The values in an action's result that are fields of the cycle."""
    return {k: v for k, v in action.result.items() if k in Cycle.__struct_fields__}
