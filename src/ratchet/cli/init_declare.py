"""`ratchet init --declare`: declares the recorded prompts in the source, and verifies again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ratchet.cli.console import one_line
from ratchet.cli.init_verify import WiringVerification
from ratchet.types import InputError, PromptFile
from ratchet.types.wording import counted
from ratchet.wire.applying import Plan
from ratchet.wire.changes import Changes, LeftAlone
from ratchet.wire.codemods import declare
from ratchet.wire.deriving.declarations import Declarations, declarations
from ratchet.wire.deriving.derive import Derived, Wiring
from ratchet.wire.deriving.prompts import SentPrompt
from ratchet.wire.looking.inventory import Place
from ratchet.wire.project_files.dependency import Edited, manifest_of, with_sdk
from ratchet.wire.recording.recording import Recording

MAX_PLANS_VERIFIED = 3
"""Maximum number of plans to verify; each leaves out what its predecessor could not declare."""


_NEEDS_SDK = "Declared prompts import ratchet, so install it wherever the agent runs."


class Declaring(NamedTuple):
    """The outcome of declaring a wiring's prompts."""

    wiring: Wiring
    plan: Plan
    verification: WiringVerification
    names: tuple[str, ...] = ()
    """Prompts that are declared; if there are none, the wiring is unchanged."""
    left: tuple[LeftAlone, ...] = ()
    next_step: str = ""
    """The command that the user runs next."""


class DeclaredParts(NamedTuple):
    """The parts of a plan that declare prompts, beside the wiring's settings and tasks."""

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
    """Declare the prompts that the recorded run sent, except those with which the checks fail.

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
    places = _places(decided, derived.prompts)
    sdk: Edited | LeftAlone | None = None
    if decided.literals:
        sdk = _manifest(root, folders[0], recording, say)
    for _ in range(MAX_PLANS_VERIFIED):
        declaration = declare(root, decided.literals, folders)
        names = (*declaration.names, *_names_of_files(decided))
        if not names:
            left += declaration.changes.left_alone
            break
        in_manifest = (sdk.change,) if declaration.names and isinstance(sdk, Edited) else ()
        parts = DeclaredParts(
            Changes((*declaration.changes.files, *in_manifest)),
            decided.files,
            declaration.import_per_candidate,
        )
        say(f"\nChecking it again with {counted(len(names), 'declared prompt')}…")
        try:
            plan = planned(wiring, parts)
            verification = verified(wiring, plan)
            why = _why_worse(works.verification, verification)
        except InputError as error:
            why = error.message
        if why:
            failure = f"The check fails if it is declared: {why}"
            left += [LeftAlone(name, places[name], failure) for name in names]
            left += declaration.changes.left_alone
            break
        missing = [name for name in verification.not_arrived if name in places]
        if not missing:
            left += declaration.changes.left_alone
            if isinstance(sdk, LeftAlone) and declaration.names:
                left.append(msgspec.structs.replace(sdk, why=f"{sdk.why} {_NEEDS_SDK}"))
            step = sdk.next_step if in_manifest and isinstance(sdk, Edited) else ""
            return Declaring(wiring, plan, verification, names, tuple(left), step)
        failure = "In the check, a change to the prompt did not reach the model."
        left += [LeftAlone(name, places[name], failure) for name in missing]
        decided = _without(decided, missing)
    return works._replace(left=tuple(left))


def _why_worse(before: WiringVerification, after: WiringVerification) -> str:
    """The checks that passed before prompts were declared and now fail; empty if all still pass.

    Texts that vary from run to run, such as those with a date, differ with nothing declared too.
    """
    if not after.works:
        return after.why.strip()
    passed = {finding.name for finding in before.findings if finding.holds}
    worse = [f.said for f in after.findings if f.name in passed and not f.holds]
    return " ".join(worse)


def _manifest(
    root: Path, folder: str, recording: Recording, say: Callable[[str], None]
) -> Edited | LeftAlone | None:
    """The change that adds the SDK to the agent's manifest; None if it is there, or none exists."""
    manifest = manifest_of(root, folder)
    if manifest is None or recording.python is None:
        return None
    say(f"Asking the resolver whether {manifest} resolves with the SDK…")
    return with_sdk(root, manifest, Path(recording.python.executable))


def _names_of_files(decided: Declarations) -> list[str]:
    return [_name_in(file, field) for file in decided.files for field in file.fields or ("",)]


def _name_in(file: PromptFile, field: str) -> str:
    return file.prompt_name(field.split(".") if field else ())


def _places(decided: Declarations, prompts: Sequence[SentPrompt]) -> dict[str, Place]:
    """The place of each declared prompt in the source."""
    lines = {(prompt.path, prompt.start): prompt.line for prompt in prompts}
    in_code = {
        literal.name: Place(literal.path, lines[literal.path, literal.start])
        for literal in decided.literals
    }
    in_files = {
        _name_in(file, field): Place(file.path)
        for file in decided.files
        for field in file.fields or ("",)
    }
    return {**in_code, **in_files}


def _without(decided: Declarations, names: Sequence[str]) -> Declarations:
    """The declarations without some prompts."""
    literals = tuple(literal for literal in decided.literals if literal.name not in names)
    files = []
    for file in decided.files:
        fields = tuple(field for field in file.fields if _name_in(file, field) not in names)
        is_prompt = not file.fields and _name_in(file, "") not in names
        if fields or is_prompt:
            files.append(msgspec.structs.replace(file, fields=fields))
    return Declarations(literals, tuple(files), decided.left)


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
            "Prompts can be declared only for a Python entry. For a command or service, the "
            "gateway replaces them without a declaration."
        )
    return LeftAlone(one_line(wiring.label), Place("ratchet.toml"), why)
