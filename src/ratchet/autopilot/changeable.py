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

ABOUT = {
    "improve.budget": {
        "rollouts": "Most runs of the agent that learning may make.",
        "seconds": "Most seconds that learning may take.",
        "coach_calls": "Most calls of the coach's model.",
        "dollars": "Most dollars that learning may spend.",
    },
    "prove": {
        "alpha": "Accepted share of false promotions among all promotions.",
        "min_gain": "Smallest gain that matters; below it a proof ends as futile.",
        "harm_alpha": "How often a harmless change may be called harmful.",
        "futility_alpha": "How often a change that gains enough may be given up.",
        "min_pairs": "Pairs before any verdict other than harm.",
        "repetitions": "How often each test task is run with either candidate.",
        "labels": "Test pairs that people label where a judge's score decides.",
    },
    "autopilot": {
        "mode": "How far it goes: a pull request, a canary before it, or a release after it.",
        "agent": "Name of the agent in its live traces.",
        "poll_s": "Seconds between two looks at live traffic.",
        "evaluator": "What scores live answers; feedback does where none is named.",
        "wait_s": "Seconds after its start that a live trace is read.",
        "window": "Newest live traces of the last day that are looked at.",
        "min_traces": "Scored or failed traces before which nothing begins.",
        "max_bad": "Share of bad traces above which a cycle begins.",
        "low_score": "A score of at most this is bad.",
        "dataset": "Dataset of the captured tasks.",
        "min_tasks": "Tasks before which learning does not begin.",
        "max_tasks": "Most tasks that one cycle captures.",
        "cooldown_hours": "Hours between the end of a cycle and the next.",
        "dollars_per_day": "Most dollars a day for learning, proof and judges.",
        "rollouts_per_day": "Most runs of the agent a day for learning and proof.",
        "requests_per_day": "Most pull requests that it opens a day.",
        "resources": "Resources that it may change; all where none is named.",
        "paths": "Files that a patch may touch; all where none is named.",
        "hours": "Hours in which it may change what users get.",
        "weekdays": "Days on which it may change what users get; all where none is named.",
        "time_zone": "Time zone of the hours and of the day's budget.",
        "freeze": "While it is true, nothing that users get is changed.",
        "approval": "Whether a person must approve each candidate.",
        "approvers": "Who may approve; everybody where nobody is named.",
    },
    "live": {
        "mirror": "Share of live calls that are repeated for a candidate.",
        "per_minute": "Most repeated calls a minute.",
        "dollars": "Most dollars for the repeated calls of one stage.",
        "rerun": "Whether the release answers repeated calls again too.",
    },
    "shadow": {
        "enabled": "Whether candidates are proved beside live traffic.",
        "margin": "Smallest fall of the mean score that is not acceptable.",
        "harm_alpha": "How often a harmless candidate may be stopped.",
        "min_pairs": "Scored pairs before which nothing passes.",
        "max_pairs": "Pairs after which the stage ends.",
    },
    "canary": {
        "steps": "Shares of units that take part; half of them get the candidate.",
        "step_units": "Units before the next step.",
        "step_hours": "Hours before the next step.",
        "margin": "Smallest fall of the mean score that is not acceptable.",
        "harm_alpha": "How often a harmless candidate may be stopped.",
        "min_units": "Units with a score or feedback before which nothing passes.",
        "max_units": "Units after which the stage ends.",
        "guardrails": "Metrics that must be proved not to get worse.",
        "error_margin": "Smallest rise of the share of failed calls that is not acceptable.",
        "relative_margin": "Smallest rise of latency and cost that is not acceptable, as a share.",
        "timeout_s": "Seconds after which a call counts as failed.",
    },
    "watch": {
        "metrics": "What is watched after a release.",
        "alpha": "How often a harmless release may raise an alarm.",
        "outcomes": "Outcomes after which the watch ends.",
        "days": "Days after which it ends with fewer outcomes.",
        "tolerance": "Fall of a share, or relative rise of latency and cost, without an alarm.",
        "reference": "Outcomes before the release that say what is expected.",
        "timeout_s": "Seconds after which a call counts as failed.",
    },
    "ship": {
        "test": "Command that a release must pass.",
        "timeout_s": "Most seconds that the test command may take.",
        "environment": "Environment variables that the test command receives.",
        "network": "Whether the test command may use the network.",
        "sandbox": "Whether the test command runs in a sandbox.",
        "show": "Hidden files that the test command may read.",
        "pull_request": "Whether ratchet improve opens a pull request.",
        "remote": "The git remote that is pushed to.",
        "base": "The branch that pull requests are for.",
        "forge": "GitHub or GitLab; told by the remote's address otherwise.",
        "api_url": "Address of the forge's API.",
        "repository": "The repository at the forge, as OWNER/NAME.",
        "token_env": "Environment variable that holds the forge's token.",
        "app_id": "Id of the GitHub App that takes the token's place.",
        "app_key": "File with that app's private key.",
        "labels": "Labels of pull requests.",
        "reviewers": "Who is asked for a review.",
        "draft": "Whether pull requests are opened as drafts.",
        "max_open": "Most pull requests that may be open at once.",
        "evidence": "Whether the evidence file is committed to the branch.",
        "server_url": "Address of the server that links in pull requests lead to.",
    },
    "retention": {
        "spans_days": "Days that spans of live traffic are kept.",
        "rollouts_days": "Days that finished rollouts are kept, with their spans and scores.",
        "journal_days": "Days that journals of runs are kept.",
        "candidates_days": "Days that candidates are kept after they were last proposed.",
        "datasets_days": "Days that datasets are kept after they were last put.",
        "feedback_days": "Days that feedback is kept.",
        "audit_days": "Days that the audit log is kept.",
        "events_days": "Days that events are kept.",
    },
    "redaction": {
        "enabled": "Whether secrets and personal data are removed before they are stored.",
        "rules": "Rules that are active; all where none is named.",
        "keys": "Further fields that are removed.",
        "patterns": "Further regular expressions, by name, whose matches are removed.",
        "allow": "Values that stay although a rule matches.",
        "pseudonyms": "Whether equal values get equal pseudonyms.",
        "capture_content": "Whether inputs and outputs are stored, or only the structure of spans.",
    },
}
"""What each key of the shown sections says, in a sentence."""

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
