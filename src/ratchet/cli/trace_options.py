"""Options that choose traces, shared by commands."""

from __future__ import annotations

from typing import Annotated

import typer

OfAgent = Annotated[str | None, typer.Option("--agent", help="Only traces of this agent.")]
WithErrors = Annotated[bool, typer.Option("--errors", help="Only traces with a failed step.")]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Only traces that began after this: 15m, 1h, 2d, or a date."),
]
Until = Annotated[str | None, typer.Option("--until", help="Only traces that began before this.")]
Named = Annotated[str | None, typer.Option("--name", help="Only traces whose name contains this.")]
OfConversation = Annotated[
    str | None, typer.Option("--conversation", help="Only traces of this conversation.")
]
WithRollouts = Annotated[bool, typer.Option("--rollouts", help="Include traces of rollouts.")]
