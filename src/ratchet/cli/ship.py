"""`ratchet ship`: open a release's pull request, or prove a candidate first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ratchet.autopilot import Project
from ratchet.autopilot.chosen_candidate import ProofWanted, learned_sentence, named_candidate
from ratchet.autopilot.draft_release import draft_release
from ratchet.autopilot.pull_requests import forge_settings, live_proofs, propose_release
from ratchet.cli.console import Folder, Json, out, print_json, project_in, short
from ratchet.cli.improve import improve_project
from ratchet.cli.run_outcome import print_outcome
from ratchet.cli.selection import release_of
from ratchet.ship.forges import preview
from ratchet.ship.live_proof import LiveProof
from ratchet.types import Candidate, InputError, PullRequest, Release


def ship(
    release: Annotated[
        str | None,
        typer.Argument(
            metavar="[RELEASE|CANDIDATE]",
            help="Start of the id of a release (by default the newest), or of a candidate, which "
            "is proved first.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show what would be pushed and sent, without any connection."
        ),
    ] = False,
    ci_workflow: Annotated[
        bool,
        typer.Option(
            "--ci-workflow",
            help="Only write a CI job that verifies committed evidence.",
        ),
    ] = False,
    draft: Annotated[
        bool,
        typer.Option(
            "--draft",
            help="Open an unproved candidate as a draft, which is released only if a person "
            "merges it.",
        ),
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=0.99,
            help="How much lower a candidate may score: it is proved no worse, instead of better. "
            "By default, a candidate without a clear gain in learning gets the tightest margin "
            "that the test tasks can prove.",
        ),
    ] = None,
    folder: Folder = Path("."),
    json: Json = False,
) -> None:
    """Push a release's branch, and open its pull request on GitHub or GitLab.

    An open request is brought up to date; nothing is written when nothing changed. After a failure
    the same command goes on where it stopped. Nothing is pushed by force.

    Of a candidate it first makes a release, as `ratchet improve` would if its search had ended
    with it: a new experiment on the test tasks, at the next level of the agent's error budget.
    Where learning saw a gain, it has to be proved better, else no worse.

    Examples:

      ratchet ship --dry-run

      ratchet ship

      ratchet ship 1a2b3c4d

      ratchet ship 5e6f7a8b  # a candidate of ratchet candidates --front

      ratchet ship 5e6f7a8b --margin 0.05

      ratchet ship --draft

      ratchet ship --ci-workflow
    """
    project = project_in(folder)
    if ci_workflow:
        _write_workflow(project, json)
        return
    candidate = None if release is None else _candidate_named(project, release)
    if candidate is not None:
        if dry_run or draft:
            raise InputError(
                f"Candidate {short(candidate.id)} has no release yet to show or draft.",
                hint="Omit --dry-run and --draft to prove it, or name a release.",
            )
        _prove_and_ship(project, ProofWanted(candidate.id, margin), json)
        return
    if margin is not None:
        raise InputError("--margin is only for the proof of a candidate: name the candidate.")
    with project.open_store() as store:
        if draft:
            if release is not None:
                raise InputError("--draft creates its own release: omit RELEASE.")
            selected = draft_release(project, store)
        else:
            selected = release_of(store.releases.list(1000), release, "ship")
        if draft and not dry_run:
            obstacle = preview(selected, project.root, forge_settings(project)).obstacle
            if obstacle:
                _print_branch(selected, obstacle, json)
                return
        if dry_run:
            _preview(project, selected, live_proofs(project, store, selected), json)
            return
        proposed = propose_release(project, store, selected)
    if json:
        print_json(proposed)
        return
    assert proposed.request is not None
    _print(proposed, proposed.request)


def _candidate_named(project: Project, name: str) -> Candidate | None:
    """The candidate whose id begins with this; None if it is a release's id.

    Raises:
        InputError: Both do, several candidates' do, or none.
    """
    with project.open_store() as store:
        if not store.releases.find(name):
            return named_candidate(project, store, name)
        if store.candidates.find(name):
            raise InputError(
                f"{name!r} matches both a release and a candidate.", hint="Give more digits."
            )
    return None


def _prove_and_ship(project: Project, wanted: ProofWanted, json: bool) -> None:
    """Prove a candidate, and open the pull request of its release."""
    if not json:
        with project.open_store() as store:
            place = learned_sentence(store, store.candidates.get(wanted.name))
        if place:
            out.print(place, markup=False)
    outcome = improve_project(
        project, seed=None, ship=True, skip_bad=False, quiet=json, chosen=wanted
    )
    release, obstacle = outcome.release, ""
    if release is not None and release.state == "branched":
        obstacle = preview(release, project.root, forge_settings(project)).obstacle
        if not obstacle:
            with project.open_store() as store:
                release = propose_release(project, store, release)
            outcome = msgspec.structs.replace(outcome, release=release)
    if json:
        print_json(outcome.for_machines())
        return
    print_outcome(outcome)
    if obstacle:
        out.print(f"No pull request was opened. {obstacle}", markup=False)


def _print(release: Release, request: PullRequest) -> None:
    states = {
        "open": f"[bold green]Open:[/] {request.url}",
        "merged": f"[bold green]Already merged:[/] {request.url}",
        "closed": f"[bold yellow]Closed:[/] {request.url}",
    }
    out.print(states[request.state])
    out.print(f"Release {short(release.id)}, branch {release.branch} at {request.head[:10]}")
    if request.note:
        out.print(f"Note: {request.note}.", markup=False)


def _print_branch(release: Release, obstacle: str, json: bool) -> None:
    """Print that a draft is only a branch, and why."""
    if json:
        print_json(release)
        return
    out.print(f"[bold yellow]Not proved:[/] the draft is the branch {release.branch}.")
    out.print(f"The text for reviewers: {release.pull_request}", markup=False)
    out.print(f"No pull request was opened. {obstacle}", markup=False)


def _preview(project: Project, release: Release, live: Sequence[LiveProof], json: bool) -> None:
    plan = preview(release, project.root, forge_settings(project), live=live)
    if json:
        print_json(
            {
                "push": {
                    "remote": plan.remote,
                    "branch": plan.branch,
                    "commit": plan.commit,
                },
                "request": {"method": "POST", "url": plan.url, "body": plan.body},
                "title": plan.title,
                "text": plan.text,
                "diff": plan.diff,
                "obstacle": plan.obstacle,
            }
        )
        return
    if plan.obstacle:
        out.print("Nothing can be sent yet:", style="bold yellow")
        out.print(plan.obstacle, markup=False)
        out.print("\nThis would be opened:", style="bold")
    else:
        out.print("Nothing is sent. This would be pushed and opened:", style="bold")
        out.print(f"git push {plan.remote} {plan.commit[:12]}:refs/heads/{plan.branch}")
        out.print(f"POST {plan.url}")
    for name, value in plan.body.items():
        if name not in ("body", "description"):
            out.print(f"  {name}: {value}", markup=False)
    out.print()
    out.print(plan.title, style="bold", markup=False)
    out.print()
    out.print(plan.text, markup=False)


def _write_workflow(project: Project, json: bool) -> None:
    from ratchet.ship.forges.workflow import write_workflow

    workflow = write_workflow(project.root, forge_settings(project))
    if json:
        print_json({"path": str(workflow.path), "written": workflow.written})
        return
    out.print(f"Wrote {workflow.path}" if workflow.written else f"{workflow.path} is up to date")
    out.print(workflow.next_step, markup=False)
    if not project.config.ship.evidence:
        out.print("Set evidence = true under [ship], so that evidence is committed.", markup=False)
