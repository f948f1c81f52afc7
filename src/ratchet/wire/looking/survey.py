"""Takes the inventory of a repository by reading its files; does not run or import them."""

from __future__ import annotations

from itertools import starmap
from pathlib import Path

from ratchet.wire.looking.commands import find_commands
from ratchet.wire.looking.data_files import find_data_files
from ratchet.wire.looking.inventory import Inventory, PassedOver
from ratchet.wire.looking.listing import FileListing
from ratchet.wire.looking.projects import find_frameworks, find_projects
from ratchet.wire.looking.prompt_texts import find_prompts
from ratchet.wire.looking.running_tests import find_tests


def look(path: Path) -> Inventory:
    """Read a folder and report what it holds.

    Args:
        path: The folder of a repository, or of a project in one.

    Raises:
        InputError: It is not a folder, or has too many files.
    """
    listing = FileListing(path)
    frameworks = find_frameworks(listing)
    projects = find_projects(listing, frameworks)
    return Inventory(
        root=str(listing.root),
        git=listing.git,
        files=len(listing.paths),
        languages=listing.languages(),
        projects=tuple(projects),
        frameworks=frameworks,
        commands=find_commands(listing),
        tests=tuple(find_tests(listing, projects)),
        data_files=tuple(find_data_files(listing)),
        prompts=tuple(find_prompts(listing)),
        secret=tuple(listing.secret),
        passed_over=tuple(starmap(PassedOver, sorted(listing.passed_over.items()))),
    )
