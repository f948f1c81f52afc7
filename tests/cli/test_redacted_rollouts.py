"""`ratchet run`, `eval` and `improve` keep no secrets of what an agent does."""

from __future__ import annotations

import pytest

from tests.cli.conftest import AGENT, CONFIG, MakeProject, Project

SECRET = "sk-proj-Ab3dEf7hIj1kLm5nOp9qRsT2"
MAIL = "ann@example.com"

LOOKS = (
    AGENT.replace(
        "return KNOBS.aim",
        """
    book(card="4111 1111 1111 1111", api_key="SECRET", note={"to": ["MAIL"]})
    return KNOBS.aim


@ratchet.tool
def book(**given):
    return {"booked": given, "staff": "EMP-123456"}
""",
    )
    .replace("SECRET", SECRET)
    .replace("MAIL", MAIL)
)


def on_disk(project: Project) -> bytes:
    """Every byte of the files of the project's database."""
    files = sorted((project.root / ".ratchet").glob("ratchet.db*"))
    return b"".join(each.read_bytes() for each in files)


@pytest.mark.parametrize("executor", ["process", pytest.param("async", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "command",
    [("run", "--split", "val", "--limit", "2"), ("eval", "--split", "val"), ("improve",)],
    ids=lambda command: command[0],
)
def test_secrets_in_what_an_agent_gives_its_tools_do_not_reach_the_store(
    make_project: MakeProject, command: tuple[str, ...], executor: str
) -> None:
    config = CONFIG.replace("max_trials = 12", "max_trials = 2")
    config += f'[run]\nexecutor = "{executor}"\n[redaction.patterns]\nstaff = "EMP-[0-9]{{6}}"\n'
    agent = LOOKS if executor == "process" else LOOKS.replace("def answer", "async def answer")
    project = make_project(agent=agent, config=config)
    done = project.ratchet(*command)
    assert done.returncode in (0, 4), done.stderr
    found = on_disk(project)
    for kind in (b"card", b"email", b"field", b"staff"):
        assert b"[redacted:" + kind + b"]" in found, kind
    for secret in (SECRET, MAIL, "4111 1111", "4111111111111111", "EMP-123456"):
        assert secret.encode() not in found, secret


def test_redaction_that_is_switched_off_is_off_and_one_that_cannot_be_done_is_told(
    make_project: MakeProject,
) -> None:
    project = make_project(agent=LOOKS, config=CONFIG + "[redaction]\nenabled = false\n")
    assert project.ratchet("run", "--task", "t3").returncode == 0
    assert MAIL.encode() in on_disk(project)
    project.write("ratchet.toml", CONFIG + '[redaction]\nrules = ["mail"]\n')
    done = project.ratchet("run", "--task", "t3")
    assert done.returncode == 2
    assert "there is no rule 'mail'" in done.stderr
    assert "Traceback" not in done.stderr
