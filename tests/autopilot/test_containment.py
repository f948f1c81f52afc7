"""What [agent.allow] means for a project: contained, said not to be, or refused with the cure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet.autopilot.agent_section import AgentSection
from ratchet.autopilot.config import read_config
from ratchet.autopilot.containment import (
    NOT_CONTAINED_NOTE,
    allowance,
    check_executor,
    containment_of,
    host_and_port,
)
from ratchet.autopilot.learning_sections import SandboxSection
from ratchet.sandbox import containment
from ratchet.sandbox.limits import SandboxUnavailable
from ratchet.types import ConfigError


def written(folder: Path, text: str) -> AgentSection:
    (folder / "ratchet.toml").write_text(text)
    return read_config(folder / "ratchet.toml").agent


def made(agent: AgentSection, folder: Path, **sandbox: Any) -> tuple[Any, str]:
    return containment_of(agent, SandboxSection(**sandbox), root=folder, state=folder / "state")


def test_a_project_without_the_section_is_told_in_one_line(tmp_path: Path) -> None:
    agent = written(tmp_path, '[agent]\nentry = "m:f"\n')
    assert made(agent, tmp_path) == (None, NOT_CONTAINED_NOTE)
    assert "\n" not in NOT_CONTAINED_NOTE
    assert "[agent.allow]" in NOT_CONTAINED_NOTE


@pytest.mark.skipif(containment.why_no_supervision() != "", reason="nothing contains here")
def test_an_empty_section_contains(tmp_path: Path) -> None:
    agent = written(tmp_path, '[agent]\nentry = "m:f"\n[agent.allow]\n')
    contained, said = made(agent, tmp_path)
    assert contained is not None
    assert said == ""


def test_its_folders_are_relative_to_the_project_or_to_the_home_and_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = '[agent]\nentry = "m:f"\n[agent.allow]\nfolders = ["out", "~/.cache/models"]\n'
    section = written(tmp_path, text).allow
    assert section is not None
    folders = allowance(section, tmp_path).folders
    assert folders == (str(tmp_path / "out"), str(tmp_path / "home/.cache/models"))
    assert all(Path(folder).is_dir() for folder in folders)


def absent(folder: Path, names: str, folders: str = "") -> tuple[str, ...]:
    text = f'[agent]\nentry = "m:f"\n[agent.allow]\nabsent = [{names}]\nfolders = [{folders}]\n'
    section = written(folder, text).allow
    assert section is not None
    return allowance(section, folder).absent


def test_what_is_absent_is_part_of_a_copy_wherever_links_lead(tmp_path: Path) -> None:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    (tmp_path / "linked").symlink_to(project)
    assert absent(tmp_path / "linked", '".cache", "a/../b.db"') == (
        str(project / ".cache"),
        str(project / "b.db"),
    )
    (project / "elsewhere").symlink_to(tmp_path)
    for outside in ('"."', '".."', '"~"', '"/etc/passwd"', '"elsewhere/../.."'):
        with pytest.raises(ConfigError, match="of which rollouts have no copy"):
            absent(project, outside)


@pytest.mark.parametrize("names", ['"out"', '"out/answers"'])
def test_what_is_really_written_to_cannot_be_absent(tmp_path: Path, names: str) -> None:
    with pytest.raises(ConfigError, match="would be deleted for good"):
        absent(tmp_path, names, '"out"')
    assert absent(tmp_path, '"out"', '"out/kept"') == (str(tmp_path.resolve() / "out"),)


@pytest.mark.skipif(containment.why_no_supervision() != "", reason="nothing contains here")
def test_where_nothing_can_be_left_out_that_is_said(tmp_path: Path) -> None:
    text = '[agent]\nentry = "m:f"\n[agent.allow]\nabsent = [".cache"]\n'
    _, said = made(written(tmp_path, text), tmp_path, level="landlock")
    assert "Rollouts still see" in said


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("api.Tavily.com:443", ("api.tavily.com", 443)),
        ("*.example.com:8080", ("*.example.com", 8080)),
        ("127.0.0.1:5432", ("localhost", 5432)),
        ("[fd00::7]:6379", ("fd00::7", 6379)),
        ("*:443", ("*", 443)),
    ],
)
def test_hosts_are_names_or_addresses_with_ports(
    tmp_path: Path, text: str, host: tuple[str, int]
) -> None:
    section = written(
        tmp_path, f'[agent]\nentry = "m:f"\n[agent.allow]\nhosts = ["{text}"]\n'
    ).allow
    assert section is not None
    assert [host_and_port(each) for each in section.hosts] == [host]


@pytest.mark.parametrize(
    "text", ["api.tavily.com", "https://api.tavily.com", "a b:80", "a:70000", ""]
)
def test_a_host_without_a_port_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="should be a host with its port"):
        written(tmp_path, f'[agent]\nentry = "m:f"\n[agent.allow]\nhosts = ["{text}"]\n')


def test_a_machine_that_cannot_contain_says_so_and_goes_on_if_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = written(tmp_path, '[agent]\nentry = "m:f"\n[agent.allow]\n')
    monkeypatch.setattr(sys, "platform", "freebsd14")
    for cached in (containment.why_no_namespaces, containment.why_no_supervision):
        cached.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match="cannot be contained") as failed:
            made(agent, tmp_path)
        assert "unsafe = true" in str(failed.value)
        contained, said = made(agent, tmp_path, unsafe=True)
    finally:
        for cached in (containment.why_no_namespaces, containment.why_no_supervision):
            cached.cache_clear()
    assert contained is None
    assert "not contained" in said


def test_a_service_that_runs_already_is_said_not_to_be_contained(tmp_path: Path) -> None:
    agent = written(tmp_path, '[agent]\nurl = "http://127.0.0.1:9/"\n[agent.allow]\n')
    contained, said = made(agent, tmp_path)
    assert contained is None
    assert "http://127.0.0.1:9/" in said


@pytest.mark.parametrize("kind", ["inline", "ray"])
def test_executors_in_processes_that_cannot_be_contained_are_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match=rf'executor = "{kind}".*\[agent.allow\]'):
        check_executor(kind)
