"""A release at the gateway: the candidate's prompts replace the agent's in its model calls.

For agents whose prompt is in no file that can be patched.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ratchet.ship.headline import change_label, headline
from ratchet.ship.pull_request import code, fence, plain, proof_section, write_text_file
from ratchet.store import Store
from ratchet.types import (
    Activation,
    Candidate,
    Conflict,
    Decision,
    Params,
    PromptTemplate,
    Release,
    Resource,
    ShipError,
    content_hash,
)


def activate(
    store: Store,
    *,
    agent: str,
    repo: Path,
    baseline: Candidate,
    candidate: Candidate,
    decision: Decision,
    evidence_path: Path,
    experiment_id: str,
    out_dir: Path,
    now: float,
    reasons: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Release:
    """Make a promoted candidate active for an agent's live calls through the gateway.

    The text for reviewers is written first. A repeated call finds the release as it is.

    Args:
        store: Store of the gateway's servers.
        agent: The agent's name at the gateway.
        repo: Folder of the agent.
        baseline: The agent's own prompts.
        candidate: The candidate that was proved better.
        decision: The experiment's outcome; its verdict must be `promote`.
        evidence_path: The evidence file.
        experiment_id: Id of the experiment.
        out_dir: Folder of the text.
        now: Unix seconds.
        reasons: Why the source cannot be patched, by name of the prompt.
        notes: Sentences to add to the text.

    Raises:
        ShipError: Not promoted, or the evidence or the folder is missing.
    """
    if decision.verdict != "promote":
        raise ShipError(
            f"The decision on candidate {candidate.id[:12]} is {decision.verdict!r}, not "
            "'promote', so it is not shipped."
        )
    if not evidence_path.is_file():
        raise ShipError(
            f"The evidence file {evidence_path} does not exist.",
            hint="A release needs it to verify its numbers; run the experiment again.",
        )
    release_id = content_hash([experiment_id, candidate.id, "gateway", agent])
    existing = store.releases.get(release_id)
    if existing is not None:
        if existing.state == "active":  # a call that was killed may not have come this far
            _switch(store, existing, decision, now)
        return existing
    path = out_dir.resolve() / f"{agent}-{candidate.id[:8]}.md"
    active = store.agents.active(agent)
    release = Release(
        id=release_id,
        experiment_id=experiment_id,
        candidate_id=candidate.id,
        baseline_id=baseline.id,
        state="active",
        repo=str(repo.resolve()),
        branch="",
        base=active.candidate_id if active else "",
        commit="",
        pull_request=str(path),
        evidence=str(evidence_path.resolve()),
        created_at=now,
        agent=agent,
    )
    write_text_file(path, _text(release, baseline, candidate, decision, reasons, notes))
    store.releases.put(release)
    _switch(store, release, decision, now)
    return release


def _switch(store: Store, release: Release, decision: Decision, now: float) -> None:
    settings = store.agents.settings(release.agent)
    if not settings.substitute:
        store.agents.put(msgspec.structs.replace(settings, substitute=True), now)
    store.agents.activate(
        Activation(
            agent=release.agent,
            candidate_id=release.candidate_id,
            activated_at=now,
            reason=f"Release {release.id[:12]}: {decision.sentence}"[:500],
        )
    )


def refresh_active(store: Store, release: Release) -> Release:
    """Update a release at the gateway: it ends when another candidate, or none, becomes active."""
    if release.state != "active":
        return release
    active = store.agents.active(release.agent)
    if active is not None and active.candidate_id == release.candidate_id:
        return release
    after = f"replaced by {active.candidate_id[:12]}" if active else "deactivated by hand"
    return msgspec.structs.replace(release, state="rolled_back", rollback=after)


def deactivate(store: Store, release: Release, now: float, reason: str = "") -> Release:
    """Undo a release at the gateway: what was active before is active again.

    Raises:
        Conflict: It is no longer active.
    """
    release = refresh_active(store, release)
    if release.state != "active":
        raise Conflict(f"Release {release.id[:12]} has already ended ({release.rollback}).")
    told = f"Rollback of release {release.id[:12]}. {reason}".strip()
    store.agents.activate(
        Activation(agent=release.agent, candidate_id=release.base, activated_at=now, reason=told)
    )
    back = (
        f"candidate {release.base[:12]} is active again"
        if release.base
        else "the agent's own prompts are active again"
    )
    return msgspec.structs.replace(
        release, state="rolled_back", rollback=back, rollback_reason=reason
    )


def _values(resource: Resource) -> str:
    contents = resource.values if isinstance(resource, Params) else resource
    return msgspec.json.format(msgspec.json.encode(contents), indent=2).decode()


def _text(
    release: Release,
    baseline: Candidate,
    candidate: Candidate,
    decision: Decision,
    reasons: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    names = candidate.changed_from(baseline)
    changed = ", ".join(code(change_label(name, baseline, candidate)) for name in names)
    parts = [
        f"# {headline(changed, code(decision.metric), decision)}",
        f"This release is active at the gateway: calls under {code(f'/gateway/{release.agent}/')}"
        " use the prompts shown here instead of the agent's own. The source is unchanged.",
        "## What changes",
    ]
    for name in names:
        old, new = baseline.resources.get(name), candidate.resources.get(name)
        assert old is not None
        assert new is not None
        parts += [f"### {code(name)}"]
        if name in reasons:
            parts.append(plain(reasons[name]))
        if isinstance(old, PromptTemplate) and isinstance(new, PromptTemplate):
            parts += ["The agent sends:", fence(old.text, "text")]
            parts += [
                "To make the change in the source as well, replace the prompt there with this "
                "text, with your own expressions for the slots in braces:",
                fence(new.text, "text"),
            ]
        else:
            parts += ["The source has:", fence(_values(old), "json")]
            parts += ["Live calls get:", fence(_values(new), "json")]
    if candidate.reason:
        parts += [
            f"Proposed by {code(candidate.algorithm)}, because:",
            fence(candidate.reason, "text"),
        ]
    parts += [
        *proof_section(decision),
        "## Check it",
        "This recomputes every number above from the paired scores:",
        fence(f"ratchet verify {shlex.quote(release.evidence)}", "sh"),
        "## Undo it",
        "To undo it, within seconds:",
        fence(f"ratchet rollback {release.id[:12]}", "sh"),
    ]
    if notes:
        parts += ["## Notes", "\n".join(f"- {plain(note)}" for note in notes)]
    parts.append(
        f"Candidate {code(candidate.id)}, baseline {code(baseline.id)}, experiment"
        f" {code(release.experiment_id)}."
    )
    return "\n\n".join(parts) + "\n"
