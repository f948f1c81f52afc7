"""Which keys of `ratchet.toml` can be changed without an editor, why others not, and what follows.

Numbers, switches and choices of budgets, policy, retention and redaction. Never what runs code,
names a file, an address or a variable, decides who may do what, or lowers what counts as proof.
"""

from __future__ import annotations

SHOWN = {
    "improve.budget": "What one run may spend",
    "prove": "When a change counts as proved",
    "autopilot": "The autopilot's policy",
    "live": "Repeating live calls for a candidate",
    "shadow": "Mirroring live calls to a candidate",
    "canary": "A share of live traffic for a candidate",
    "watch": "Watching a release",
    "ship": "Branches and pull requests",
    "retention": "What is deleted when",
    "redaction": "What is removed before it is stored",
}
"""Sections that are shown. None holds a secret: keys are in environment variables."""

CHANGEABLE = {
    "improve.budget": ("rollouts", "seconds", "coach_calls", "dollars"),
    "autopilot": (
        *("mode", "min_traces", "max_bad", "low_score", "min_tasks", "max_tasks"),
        *("cooldown_hours", "dollars_per_day", "rollouts_per_day", "requests_per_day"),
        *("hours", "time_zone", "freeze", "approval"),
    ),
    "live": ("per_minute", "dollars"),
    "shadow": ("enabled", "margin", "min_pairs", "max_pairs"),
    "canary": (
        *("step_units", "step_hours", "margin", "min_units", "max_units"),
        *("error_margin", "relative_margin"),
    ),
    "watch": ("outcomes", "days", "tolerance", "reference"),
    "retention": (
        *("spans_days", "rollouts_days", "journal_days", "candidates_days"),
        *("datasets_days", "feedback_days", "events_days"),
    ),
    "redaction": ("enabled", "capture_content"),
}
"""Keys that can be changed, by section. Every other one is read-only."""

_PROOF = "What counts as proof is changed in the file, where others can review it."
_FIXED = {
    "prove": _PROOF,
    "shadow.harm_alpha": _PROOF,
    "canary.harm_alpha": _PROOF,
    "watch.alpha": _PROOF,
    "ship": "What is run and pushed is changed in the file, where others can review it.",
    "autopilot.approvers": "Who may approve is changed in the file, where others can review it.",
    "retention.audit_days": "The audit log says who changed this: it is changed in the file.",
    "redaction.pseudonyms": "It needs RATCHET_REDACTION_KEY wherever it holds: it is changed in"
    " the file.",
}
_IN_THE_FILE = "It is changed in the file."

_AUTOPILOT = (
    "A running autopilot starts anew with it by itself, once what it does now has ended; learning"
    " may take hours."
)
_PLANNED = "A stage that has begun keeps what it began with."
_FOLLOWS = {
    "improve.budget": "ratchet improve reads it when it starts. Another budget makes another run:"
    f" one under way is not resumed. {_AUTOPILOT} It opens no pull request for what was proved"
    " with another budget.",
    "autopilot": _AUTOPILOT,
    "live": _AUTOPILOT,
    "shadow": f"{_AUTOPILOT} {_PLANNED}",
    "shadow.enabled": f"{_AUTOPILOT} A cycle that is at this stage stays there.",
    "canary": f"{_AUTOPILOT} {_PLANNED}",
    "canary.step_units": f"{_AUTOPILOT} It also holds for a canary that has begun.",
    "canary.step_hours": f"{_AUTOPILOT} It also holds for a canary that has begun.",
    "watch": f"{_AUTOPILOT} {_PLANNED}",
    "watch.days": f"{_AUTOPILOT} It also holds for a watch that has begun.",
    "retention": "A running server keeps to what it read when it started: restart ratchet serve."
    " ratchet prune goes by it at once. What has been deleted cannot be brought back.",
    "redaction": "Servers, runners and agents read it when they start: restart each of them. What"
    " is stored already stays as it is.",
    "redaction.enabled": "Servers, runners and agents read it when they start: restart each of"
    " them. Switched off, secrets and personal data are stored as they come, and stay stored.",
}
_COMMIT = "Where the file is under git, commit it: no release is made from uncommitted changes."


def why_fixed(section: str, name: str) -> str:
    """Why a key cannot be changed; empty when it can."""
    if name in CHANGEABLE.get(section, ()):
        return ""
    return _FIXED.get(f"{section}.{name}") or _FIXED.get(section) or _IN_THE_FILE


def what_follows(section: str, name: str) -> str:
    """When a change of a key takes effect, and which processes must be restarted."""
    return f"{_FOLLOWS.get(f'{section}.{name}') or _FOLLOWS[section]} {_COMMIT}"
