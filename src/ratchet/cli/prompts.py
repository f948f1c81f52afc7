"""`ratchet prompts`: find and replace the prompts of agents without changing their code."""

from __future__ import annotations

import string
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from ratchet.bind.recognise import refusal
from ratchet.cli.console import Folder, Json, one_line, out, print_json, short, table
from ratchet.cli.keys import StoreUrl, open_store
from ratchet.cli.prompt_proposals import (
    active_candidate,
    for_machines,
    highlighted,
    named_proposals,
    print_proposal,
    print_recorded_prompts,
    prompt_names,
    prompt_versions,
    recorded_prompts,
    register_proposals,
)
from ratchet.store import Store
from ratchet.types import Candidate, InputError, PromptTemplate

prompts = typer.Typer(
    help="Find an agent's prompts in its recorded calls, and replace them through the gateway.",
    no_args_is_help=True,
)

AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")]


@prompts.command()
def discover(
    agent: Annotated[
        str, typer.Option(help="Name of the live agent, which is also its rollout queue's.")
    ],
    limit: Annotated[int, typer.Option(min=1, help="Read this many of the newest calls.")] = 2000,
    least: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Minimum share of the prompts that a proposal covers."),
    ] = 0.01,
    register: Annotated[
        bool,
        typer.Option("--register", help="Store the proposals so that the gateway recognises them."),
    ] = False,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Names for the proposals, in order; by default AGENT.system, or "
            "AGENT.SPEAKER.system if several agents speak. Repeatable."
        ),
    ] = None,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Propose prompt templates from recorded calls: constant text, with slots for what varies.

    Calls are recorded by the gateway or reported by the agent's telemetry. Where several agents
    speak, each gets proposals of its own. With --register the templates are stored under their own
    names. Candidates can then hold other texts for these names, and the gateway substitutes them
    for the prompts it recognises, once that is switched on (ratchet prompts on AGENT).

    Examples:

      ratchet prompts discover --agent support

      ratchet prompts discover --agent support --register

      ratchet prompts discover --agent support --register --name support.triage
    """
    check_name(agent)
    with open_store(folder, store) as opened:
        recorded = recorded_prompts(opened, agent, limit)
        frequent = [p for p in recorded.discovery.proposals if p.share >= least]
        proposals = named_proposals(opened, agent, frequent, recorded.speakers, name or [])
        candidate = register_proposals(opened, agent, proposals) if register and proposals else None
    if json:
        print_json(for_machines(agent, recorded, proposals, candidate))
        return
    print_recorded_prompts(agent, recorded, len(recorded.discovery.proposals) - len(frequent))
    for number, (chosen, proposal) in enumerate(proposals, start=1):
        print_proposal(number, chosen, proposal)
    if candidate is not None:
        out.print(
            f"Registered. Candidate {short(candidate.id)} holds the agent's current prompts;"
            " others can be derived from it.\n"
            f"Replace them in the gateway: ratchet prompts on {agent}",
            markup=False,
        )
    elif proposals:
        out.print("Nothing is registered yet. Register the proposals with --register.")


@prompts.command("list")
def list_(
    agent: Annotated[str | None, typer.Option(help="Only the prompts of this agent.")] = None,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """List the registered prompts, and the agents whose prompts are replaced.

    Examples:

      ratchet prompts list

      ratchet prompts list --agent support --json
    """
    with open_store(folder, store) as opened:
        names = prompt_names(opened, agent) if agent else opened.resources.names("prompt")
        rows = [_row(opened, name) for name in names]
        agents = [s for s in opened.agents.list() if agent in (None, s.name)]
    if json:
        print_json({"prompts": rows, "agents": agents})
        return
    if not rows:
        out.print("No prompt is registered. Find prompts: ratchet prompts discover --agent NAME")
    else:
        listing = table("prompt", "versions", "newest", "since", "text", right=("versions",))
        for row in rows:
            since = datetime.fromtimestamp(row["since"]).astimezone()
            listing.add_row(
                row["name"],
                str(row["versions"]),
                short(row["newest"]),
                f"{since:%Y-%m-%d %H:%M}",
                Text(one_line(row["text"], 60)),
            )
        out.print(listing)
    for settings in agents:
        if settings.substitute:
            out.print(f"Replaced in the traffic of {settings.name}.", markup=False)


@prompts.command()
def show(
    name: Annotated[str, typer.Argument(help="The prompt's name.")],
    version: Annotated[
        str | None, typer.Option(help="Start of a version; the newest by default.")
    ] = None,
    folder: Folder = Path("."),
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """Show a registered prompt with its slots, and its versions.

    Examples:

      ratchet prompts show support.system

      ratchet prompts show support.system --version 1a2b3c4d
    """
    with open_store(folder, store) as opened:
        stored = opened.resources.versions(name)
        chosen, template = _select_version(opened, name, version)
    reason = refusal(template)
    if json:
        versions = [{"version": version_id, "created_at": at} for version_id, at in stored]
        print_json(
            {
                "name": name,
                "version": chosen,
                "resource": template,
                "not_recognised": reason,
                "versions": versions,
            }
        )
        return
    out.print(f"[bold]{name}[/], version {short(chosen)}:", highlight=False)
    out.print(highlighted(template))
    if reason:
        out.print(f"It is never recognised in a request: {reason}", markup=False)
    out.print("Versions:")
    for version_id, at in reversed(stored):
        when = datetime.fromtimestamp(at).astimezone()
        out.print(f"  {short(version_id)}  {when:%Y-%m-%d %H:%M}", markup=False)


@prompts.command()
def on(
    agent: AgentName, folder: Folder = Path("."), store: StoreUrl = None, json: Json = False
) -> None:
    """Have the gateway replace an agent's registered prompts with a candidate's.

    In rollouts of the queue AGENT it is the rollout's candidate, in live traffic the active one.

    Examples:

      ratchet prompts on support
    """
    _switch(agent, True, folder, store, json)


@prompts.command()
def off(
    agent: AgentName, folder: Folder = Path("."), store: StoreUrl = None, json: Json = False
) -> None:
    """Have the gateway stop replacing an agent's prompts.

    Examples:

      ratchet prompts off support
    """
    _switch(agent, False, folder, store, json)


def check_name(agent: str) -> None:
    """Raise InputError if the agent's name cannot be part of a gateway path."""
    allowed = string.ascii_letters + string.digits + "._-"
    if not 1 <= len(agent) <= 100 or not set(agent) <= set(allowed):
        raise InputError(
            f"{agent!r} is not a valid agent name.",
            hint="Use letters, digits, '.', '_' and '-', 100 characters at most.",
        )


def _switch(agent: str, on: bool, folder: Path, store: str | None, json: bool) -> None:
    check_name(agent)
    with open_store(folder, store) as opened:
        settings = msgspec.structs.replace(opened.agents.settings(agent), substitute=on)
        opened.agents.put(settings, time.time())
        active = active_candidate(opened, agent)
        names = prompt_names(opened, agent)
        refused = {
            name: reason
            for name in names
            for _, template in prompt_versions(opened, name, 1)
            if (reason := refusal(template))
        }
    active_prompts = (
        [n for n, r in active.resources.items() if isinstance(r, PromptTemplate)] if active else []
    )
    if json:
        print_json(
            {
                "agent": agent,
                "substitute": on,
                "active": active.id if active else "",
                "active_prompts": active_prompts,
                "registered": names,
                "not_recognised": refused,
            }
        )
        return
    if not on:
        out.print(f"Off: the prompts of {agent} pass through unchanged, within 2 s.", markup=False)
        return
    lines = [
        "On: takes effect within 2 s at every server of this store, for calls through the gateway.",
        f"Rollouts of the queue {agent}: recognised prompts are replaced by those of the "
        "rollout's candidate.",
        _live_line(agent, active, active_prompts),
    ]
    if not names:
        lines.append(
            f"No prompt of {agent} is registered, so none is recognised:"
            f" ratchet prompts discover --agent {agent} --register"
        )
    lines += [f"{name} is never recognised: {reason}" for name, reason in refused.items()]
    lines.append("The span of each call says which prompt was recognised and which was sent.")
    for line in lines:
        out.print(line, markup=False)


def _live_line(agent: str, active: Candidate | None, prompts: Sequence[str]) -> str:
    where = f"Live traffic (/gateway/{agent}/…): "
    if active is None:
        return f"{where}nothing is replaced until a candidate is active."
    if not prompts:
        return f"{where}the active candidate {short(active.id)} has no prompts."
    return f"{where}the active candidate {short(active.id)} has {', '.join(prompts)}."


def _row(store: Store, name: str) -> dict[str, Any]:
    stored = store.resources.versions(name)
    newest, template = _select_version(store, name, None)
    return {
        "name": name,
        "versions": len(stored),
        "newest": newest,
        "since": stored[-1][1],
        "text": template.text,
        "slots": sorted(template.placeholders),
    }


def _select_version(store: Store, name: str, version: str | None) -> tuple[str, PromptTemplate]:
    """The requested version and its template."""
    stored = list(prompt_versions(store, name, 10_000 if version else 1))
    if not stored:
        raise InputError(f"No prompt is named {name!r}.", hint="List them: ratchet prompts list.")
    fitting = [
        stored_version for stored_version in stored if stored_version[0].startswith(version or "")
    ]
    if not fitting:
        raise InputError(
            f"{name!r} has no version that begins with {version!r}.",
            hint=f"List them: ratchet prompts show {name}.",
        )
    return fitting[-1]
