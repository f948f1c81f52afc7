"""`ratchet init --declare`: the recorded prompts are declared in the source, and verified again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ratchet.cli.console import one_line
from ratchet.cli.init_verify import WiringVerification
from ratchet.types import PromptFile
from ratchet.wire.applying import Plan
from ratchet.wire.changes import Changes, LeftAlone
from ratchet.wire.codemods import declare
from ratchet.wire.deriving.declarations import Declarations, declarations
from ratchet.wire.deriving.derive import Derived, Wiring
from ratchet.wire.looking.inventory import Place
from ratchet.wire.project_files.dependency import Edited, manifest_of, with_sdk
from ratchet.wire.recording.recording import Recording

ROUNDS = 3
"""Plans that are verified at most: each leaves out what the one before it could not declare."""


_NEEDS_SDK = "Declared prompts import ratchet, so install it wherever the agent runs."


class Declaring(NamedTuple):
    """What became of declaring the prompts of a wiring."""

    wiring: Wiring
    plan: Plan
    verification: WiringVerification
    names: tuple[str, ...] = ()
    """Prompts that are declared; without any the wiring is as it was."""
    left: tuple[LeftAlone, ...] = ()
    next_step: str = ""
    """What a person does then: a command."""


class DeclaredParts(NamedTuple):
    """What a plan holds besides a wiring's own settings and tasks."""

    changes: Changes
    files: tuple[PromptFile, ...]
    import_per_candidate: bool


def declared(
    root: Path,
    works: Declaring,
    derived: Derived,
    recording: Recording,
    *,
    planned: Callable[[Wiring, DeclaredParts], Plan],
    verified: Callable[[Wiring, Plan], WiringVerification],
    say: Callable[[str], None],
) -> Declaring:
    """Declare the prompts that the recorded run sent, as far as the checks hold with them.

    Args:
        root: The project's folder.
        works: A wiring that works, with nothing declared.
        derived: What the recorded run says.
        recording: The recorded run.
        planned: Makes a plan of a wiring and what is declared.
        verified: Verifies a plan.
        say: Told what is waited for.
    """
    if works.wiring.mode != "entry":
        return works._replace(left=(_of_program(works.wiring, recording),))
    agent = {key: value for key, value in works.wiring.agent.items() if key != "prompts"}
    wiring = msgspec.structs.replace(works.wiring, agent=agent)
    folders = tuple(agent.get("path", (".",)))
    decided = declarations(root, derived.prompts)
    left = list(decided.left)
    sdk: Edited | LeftAlone | None = None
    if decided.literals:
        sdk = _manifest(root, folders[0], recording, say)
    for _ in range(ROUNDS):
        made = declare(root, decided.literals, folders)
        names = (*made.names, *_names_of_files(decided))
        if not names:
            break
        in_manifest = (sdk.change,) if made.names and isinstance(sdk, Edited) else ()
        parts = DeclaredParts(
            Changes((*made.changes.files, *in_manifest)), decided.files, made.import_per_candidate
        )
        plan = planned(wiring, parts)
        say(f"\nChecking it again with {len(names)} declared…")
        verification = verified(wiring, plan)
        same = next((f for f in verification.findings if f.name == "prompts"), None)
        if not verification.works or same is None or not same.holds:
            why = verification.why.strip() or (same.said if same else "")
            left += [
                LeftAlone(name, Place("ratchet.toml"), f"With it declared, it fails: {why}")
                for name in names
            ]
            left += made.changes.left_alone
            break
        if not verification.not_arrived:
            left += made.changes.left_alone
            if isinstance(sdk, LeftAlone) and made.names:
                left.append(msgspec.structs.replace(sdk, why=f"{sdk.why} {_NEEDS_SDK}"))
            step = sdk.next_step if in_manifest and isinstance(sdk, Edited) else ""
            return Declaring(wiring, plan, verification, names, tuple(left), step)
        decided, dropped = _without(decided, verification.not_arrived)
        left += dropped
    return works._replace(left=tuple(left))


def _manifest(
    root: Path, folder: str, recording: Recording, say: Callable[[str], None]
) -> Edited | LeftAlone | None:
    """The SDK in the manifest of the agent's folder; None where it is there, or there is none."""
    manifest = manifest_of(root, folder)
    if manifest is None or recording.python is None:
        return None
    say(f"Asking the resolver whether {manifest} resolves with the SDK…")
    return with_sdk(root, manifest, Path(recording.python.executable))


def _names_of_files(decided: Declarations) -> list[str]:
    return [
        file.prompt_name(field.split(".") if field else ())
        for file in decided.files
        for field in file.fields or ("",)
    ]


def _without(decided: Declarations, names: Sequence[str]) -> tuple[Declarations, list[LeftAlone]]:
    """What is declared without some prompts, and why these are left alone."""
    why = "In the check, a changed text of it did not reach the model."
    left: list[LeftAlone] = []
    literals = []
    for literal in decided.literals:
        if literal.name in names:
            left.append(LeftAlone(literal.name, Place(literal.path), why))
        else:
            literals.append(literal)
    files = []
    for file in decided.files:
        kept = tuple(
            field for field in file.fields if file.prompt_name(field.split(".")) not in names
        )
        whole = not file.fields and file.prompt_name() not in names
        if kept or whole:
            files.append(msgspec.structs.replace(file, fields=kept))
        if kept != file.fields or not (kept or whole):
            left.append(LeftAlone(file.path, Place(file.path), why))
    return Declarations(tuple(literals), tuple(files), decided.left), left


def _of_program(wiring: Wiring, recording: Recording) -> LeftAlone:
    python = recording.python
    if python is not None and not python.sdk:
        why = (
            f"{python.executable} has no agent-ratchet, which declared prompts import. Install it"
            f" there ({python.executable} -m pip install agent-ratchet), take this wiring back, and"
            " run it again."
        )
    else:
        why = (
            "Prompts are declared for an entry in Python; those of a command or service stay as"
            " they are, and the gateway replaces them."
        )
    return LeftAlone(one_line(wiring.label), Place("ratchet.toml"), why)
