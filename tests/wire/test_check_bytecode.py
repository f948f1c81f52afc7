"""The runs of a check compile an environment's packages once, and write nothing beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.wire.checking.bytecode import compiled_once


@pytest.mark.parametrize(("compiled", "kept_apart"), [(0, True), (1, True), (2, False), (4, False)])
def test_what_is_not_compiled_yet_is_compiled_into_a_folder_of_the_check(
    tmp_path: Path, compiled: int, kept_apart: bool
) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for number in range(4):
        (packages / f"package_{number}").mkdir(parents=True)
        (packages / f"package_{number}" / "__init__.py").touch()
        if number < compiled:
            (packages / f"package_{number}" / "__pycache__").mkdir()
    with compiled_once(tmp_path / "bin" / "python") as variables:
        folder = variables.get("PYTHONPYCACHEPREFIX", "")
        assert bool(folder) == kept_apart
        assert not folder or Path(folder).is_dir()
        assert variables.get("PYTHONDONTWRITEBYTECODE", "1") == ("" if folder else "1")
    assert not folder or not Path(folder).exists()
