"""`llms.txt` has the form of llmstxt.org, and the skill file that of SKILL.md; both are true."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import yaml

from ratchet.cli.mcp_server import make_server
from ratchet.cli.mcp_skill import skill_text

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "llms.txt").read_text()
LINK = re.compile(r"- \[([^\]]+)\]\(([^)]+)\)(?:: .+)?")


def test_it_is_a_title_a_summary_and_lists_of_links() -> None:
    first, _, summary = TEXT.split("\n")[:3]
    assert first == "# Ratchet"
    assert summary.startswith("> ")
    sections = TEXT.split("\n## ")[1:]
    assert sections
    for section in sections:
        lines = [line for line in section.split("\n")[1:] if line]
        assert lines
        assert all(LINK.fullmatch(line) for line in lines)


def test_each_link_leads_to_a_page_of_that_title() -> None:
    links = LINK.findall(TEXT)
    assert len({path for _, path in links}) == len(links)
    for title, path in links:
        assert (ROOT / path).is_file(), path
        if path.startswith("docs/"):
            assert (ROOT / path).read_text().split("\n")[0] == f"# {title}"


def test_the_skill_file_has_a_name_like_its_folder_and_a_description() -> None:
    _, head, body = skill_text().split("---\n", 2)
    found = yaml.safe_load(head)
    assert found["name"] == "ratchet"
    assert 20 < len(found["description"]) <= 1024
    assert len(body.splitlines()) < 500


def test_the_skill_file_and_its_page_name_the_tools_of_the_server() -> None:
    tools = {one.name for one in asyncio.run(make_server(ROOT).list_tools())}
    page = (ROOT / "docs" / "coding-agents.md").read_text()
    assert all(f"`{name}`" in page for name in tools)
    rows = re.findall(r"^\| \d\. [^|]+\| `(\w+)`", skill_text(), re.MULTILINE)
    assert rows
    assert set(rows) < tools
