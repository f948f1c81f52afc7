"""Where a model's file is found, and the memory that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.gguf_files import gguf

from ratchet.models import ModelUnavailable, find_model, is_local
from ratchet.models.box import BOX
from ratchet.models.memory import OVERHEAD, bytes_available, bytes_needed
from ratchet.models.model_file import check_memory


def test_local_names_a_model_of_this_machine_and_other_names_do_not() -> None:
    assert is_local("local")
    assert is_local("local:./model.gguf")
    assert not any(map(is_local, (None, "", "gpt-5-mini", "localhost", "openai/local")))


def test_a_name_that_is_no_file_is_refused_with_an_example() -> None:
    with pytest.raises(ModelUnavailable, match="no model 'gpt-2': it is not a file") as error:
        find_model("gpt-2", print)
    assert f"{', '.join(BOX)}. In those caches: none. Or name a file" in (error.value.hint or "")


def test_a_model_that_does_not_fit_is_refused_with_both_numbers(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(gguf())
    file = find_model("tiny.gguf", print, folder=tmp_path)
    needed = bytes_needed(file.bytes, 256, 1_000_000)
    assert needed == file.bytes + 512_000_000 + OVERHEAD
    check_memory(file, 1_000_000, available=needed)
    with pytest.raises(ModelUnavailable, match=r"about 780 MB .*1000000 tokens.* 100 MB are"):
        check_memory(file, 1_000_000, available=100_000_000)


def machine(folder: Path, group: str, limit: str) -> tuple[Path, Path]:
    """A procfs and a tree of control groups in which 100 MB of memory are available."""
    proc, cgroup = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 900000 kB\nMemAvailable: 100000 kB\n")
    (proc / "self/cgroup").write_text(f"0::/{group}\n")
    (cgroup / group).mkdir(parents=True)
    (cgroup / group / "memory.max").write_text(f"{limit}\n")
    (cgroup / group / "memory.stat").write_text("anon 1000000\nfile 7000000\n")
    return proc, cgroup


def test_a_container_s_limit_counts_without_its_page_cache(tmp_path: Path) -> None:
    assert bytes_available(*machine(tmp_path, "a/b", "50000000")) == 49_000_000
