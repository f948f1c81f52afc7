"""Models in the caches of Ollama and Hugging Face: found by the names that they have there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.models.gguf_files import gguf

from ratchet.models import ModelUnavailable, find_model
from ratchet.models.caches import cached_models

MODEL, PROJECTOR = "application/vnd.ollama.image.model", "application/vnd.ollama.image.projector"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user's folder without any model, and an environment that names none."""
    for name in ("OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def put_ollama(folder: Path, manifest: str, digest: str, content: bytes = gguf()) -> Path:
    """A model as `ollama pull` stores it; its manifest's path says its name."""
    blob = folder / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    path = folder / "manifests" / manifest
    path.parent.mkdir(parents=True, exist_ok=True)
    layers = [
        {"mediaType": PROJECTOR, "digest": "sha256:ffff", "size": 1},
        {"mediaType": MODEL, "digest": f"sha256:{digest}", "size": len(content)},
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:eeee", "size": 1},
    ]
    path.write_text(json.dumps({"schemaVersion": 2, "config": {"size": 5}, "layers": layers}))
    return blob


def put_hugging_face(
    hub: Path,
    repository: str,
    file: str,
    *,
    revision: str = "abc",
    main: str = "abc",
    content: bytes = gguf(),
) -> Path:
    """A file as `hf download` stores it: a link in the revision's folder to a blob."""
    folder = hub / f"models--{repository.replace('/', '--')}"
    blob = folder / "blobs" / f"{revision}-{file.replace('/', '-')}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    link = folder / "snapshots" / revision / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(blob)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs/main").write_text(main)
    return link


def found(name: str) -> Path:
    return find_model(f"local:{name}", print).path


def test_a_model_of_ollama_is_found_by_its_name_and_tag(home: Path) -> None:
    folder = home / ".ollama/models"
    small = put_ollama(folder, "registry.ollama.ai/library/qwen2.5/0.5b", "aa")
    larger = put_ollama(folder, "registry.ollama.ai/library/qwen2.5/1.5b", "bb")
    other = put_ollama(folder, "registry.ollama.ai/alice/tuned/latest", "cc")
    far = put_ollama(folder, "hf.co/Qwen/Qwen3-0.6B-GGUF/Q8_0", "dd")
    assert found("qwen2.5:0.5b") == small
    assert found("Qwen2.5:1.5B") == larger
    assert [found(name) for name in ("alice/tuned", "alice/tuned:latest", "tuned")] == [other] * 3
    assert found("hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0") == far
    assert find_model("qwen2.5:0.5b", print).name == "local/qwen2.5:0.5b"


def test_a_name_that_means_several_files_is_an_error_that_lists_them(home: Path) -> None:
    folder = home / ".ollama/models"
    put_ollama(folder, "registry.ollama.ai/library/qwen2.5/0.5b", "aa")
    put_ollama(folder, "registry.ollama.ai/library/qwen2.5/1.5b", "bb")
    with pytest.raises(
        ModelUnavailable, match=r"'qwen2\.5' names 2 models on this machine"
    ) as error:
        found("qwen2.5")
    assert "  qwen2.5:0.5b  " in str(error.value)
    assert f"  qwen2.5:1.5b  {folder}/blobs/sha256-bb" in str(error.value)


def test_a_model_of_hugging_face_is_found_by_its_repository_and_its_file(home: Path) -> None:
    hub = home / ".cache/huggingface/hub"
    q4 = put_hugging_face(hub, "Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen-instruct-q4_k_m.gguf")
    assert found("Qwen/Qwen2.5-0.5B-Instruct-GGUF") == q4
    q8 = put_hugging_face(hub, "Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen-instruct-q8_0.gguf")
    assert found("qwen/qwen2.5-0.5b-instruct-gguf:Q8_0") == q8
    assert found("Qwen2.5-0.5B-Instruct-GGUF:q4_k_m") == q4
    assert found("Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen-instruct-q8_0.gguf") == q8
    assert found("qwen-instruct-q4_k_m") == q4
    assert find_model("qwen-instruct-q8_0.gguf", print).name == "local/qwen-instruct-q8_0"
    with pytest.raises(ModelUnavailable, match="names 2 models") as error:
        found("Qwen/Qwen2.5-0.5B-Instruct-GGUF")
    assert "  Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen-instruct-q8_0  " in str(error.value)
    for model in cached_models():
        assert found(model.full_name) == model.path


@pytest.mark.parametrize(
    ("variable", "value", "hub"),
    [
        ("HF_HOME", "{}/own", "own/hub"),
        ("HF_HUB_CACHE", "{}/own", "own"),
        ("XDG_CACHE_HOME", "{}/own", "own/huggingface/hub"),
    ],
)
def test_the_folders_that_the_environment_names_are_searched(
    variable: str, value: str, hub: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value.format(home))
    file = put_hugging_face(home / hub, "a/b", "model.gguf")
    assert found("a/b") == file
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "elsewhere"))
    blob = put_ollama(home / "elsewhere", "registry.ollama.ai/library/qwen2.5/0.5b", "aa")
    assert found("qwen2.5:0.5b") == blob


def test_what_other_programs_left_half_written_is_passed_over(home: Path) -> None:
    folder = home / ".ollama/models"
    put_ollama(folder, "registry.ollama.ai/library/half/latest", "aa").unlink()
    broken = folder / "manifests/registry.ollama.ai/library/half/broken"
    broken.write_text('{"layers": [')
    (broken.parent / "list").write_text('{"layers": 3}')
    hub = home / ".cache/huggingface/hub"
    put_hugging_face(hub, "a/b", "model.gguf").resolve().unlink()
    (hub / "models--c--d").write_text("a file")
    assert cached_models() == []


def test_a_name_that_is_nowhere_is_answered_with_what_there_is(home: Path) -> None:
    put_hugging_face(home / ".cache/huggingface/hub", "a/b", "model.gguf")
    with pytest.raises(ModelUnavailable, match=r"There is no model 'qwen2\.5-coder'") as error:
        found("qwen2.5-coder")
    assert "qwen2.5-coder-1.5b. In those caches: a/b/model." in (error.value.hint or "")
