"""`ratchet.toml`: defaults for all that is left out, and errors that name what to mend."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from ratchet.autopilot.config import Config, read_config
from ratchet.types import ConfigError

LEAST = '[agent]\nentry = "module:function"\n'


def read(folder: Path, text: str | bytes) -> Config:
    path = folder / "ratchet.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_config(path)


def test_models_of_the_agent_are_a_list_of_tables(tmp_path: Path) -> None:
    models = '[[agent.models]]\nmodel = "large"\nchoices = ["small"]\n'
    (section,) = read(tmp_path, LEAST + models).agent.models
    assert (section.name, section.model, section.choices) == ("model", "large", ("small",))


def test_everything_may_be_said(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        [agent]
        entry = "pkg.mod:Class.method"
        path = ["src", "."]
        [tasks]
        file = "data/t.jsonl"
        group_by = "metadata.topic"
        split = { train = 0.5, val = 0.25, test = 0.25 }
        [[evaluators]]
        use = "numeric"
        name = "close"
        tolerance = 0.1
        [[evaluators]]
        use = "own:judge"
        [objective]
        evaluator = "close"
        [run]
        executor = "process"
        concurrency = 8
        timeout_s = 20
        [improve]
        seed = -3
        options = { max_trials = 5 }
        [improve.budget]
        seconds = 1.5
        dollars = 2
        [[guardrails]]
        metric = "latency"
        off = true
        [[guardrails]]
        metric = "cost"
        relative_margin = 0.5
        [ship]
        test = "make test"
        environment = ["HOME"]
        [store]
        url = "postgresql://host/name"
        """,
    )
    assert config.evaluators[0].options == {"tolerance": 0.1}
    assert (config.evaluators[0].name, config.evaluators[1].name) == ("close", None)
    assert config.run.timeout_s == 20.0
    assert config.improve.options == {"max_trials": 5}
    assert config.guardrails[0].off
    assert config.agent.path == ("src", ".")


UNKNOWN = {
    "[agnt]": ("agnt", "agent"),
    "[agent]\nentri = 1": ("agent.entri", "entry"),
    "[tasks.split]\ntrian = 1.0": ("tasks.split.trian", "train"),
    "[[coach.models]]\nname = 'a'\nwieght = 1.0": ("coach.models[0].wieght", "weight"),
}


@pytest.mark.parametrize("text", UNKNOWN, ids=lambda text: text.split()[0])
def test_an_unknown_key_is_named_with_the_nearest_valid_one(tmp_path: Path, text: str) -> None:
    key, meant = UNKNOWN[text]
    whole = text if text.startswith("[agent]") else LEAST + text
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, whole)
    assert f"there is no key {key!r}. Did you mean {meant!r}?" in raised.value.message
    assert str(tmp_path / "ratchet.toml") in raised.value.message


def test_a_key_like_no_other_is_told_what_there_is(tmp_path: Path) -> None:
    assert not difflib.get_close_matches("zzz", ["url"])
    with pytest.raises(ConfigError, match=r"no key 'store\.zzz'\. Known here: url\."):
        read(tmp_path, f"{LEAST}[store]\nzzz = 1")


WRONG = {
    "[run]\ntimeout_s = '20'": "run.timeout_s = '20': input should be a valid number",
    "[run]\ntimeout_s = inf": "run.timeout_s = inf: input should be a finite number",
    "[run]\nattempts = true": "run.attempts = True: input should be a valid integer",
    "[run]\nexecutor = 'dask'": "run.executor = 'dask': input should be 'auto', 'async', 'process'",
    "[run]\nserver = 'nowhere'": "run.server = 'nowhere'",
    "[tasks]\nsplit = 3": "tasks.split = 3: should be a table",
    "[tasks.split]\ntrain = nan": "tasks.split.train = nan",
    "[[evaluators]]\nk = 3": "the key 'evaluators[0].use' is missing",
    "[evaluators]\nuse = 'a'": "evaluators: should be a list",
    "[sandbox]\nconnect = ['no port']": "sandbox.connect[0] = 'no port'",
    "[coach]\nbase_url = 'localhost:8000'": "coach.base_url = 'localhost:8000'",
    "[coach]\nkey_env = 'sk-1'": "coach.key_env: should be the name of an environment variable",
    "[coach]\nmodel = 'a'\n[[coach.models]]\nname = 'b'": "either model or [[coach.models]]",
    "[[coach.models]]\nname = 'b'\n[[coach.models]]\nname = 'b'": "names 'b' twice",
    "[prove]\nalpha = 0": "prove.alpha = 0: input should be greater than 0",
    "[prove]\nalpha = 0.6": "prove.alpha = 0.6: input should be less than or equal to 0.5",
    **{
        f"[prove]\nrepetitions = {value}": f'prove.repetitions = {shown}: should be "auto" or a'
        " whole number from 1 to 100."
        for value, shown in {
            "0": "0",
            "101": "101",
            "2.0": "2.0",
            "true": "True",
            "'often'": "'often'",
            "[2]": "[2]",
        }.items()
    },
    "[[guardrails]]\nmetric = 'cost'\nmargin = -1": "guardrails[0].margin = -1",
    "[ship]\nenvironment = 'HOME'": "ship.environment = 'HOME': should be a list",
    "[prices.m]\ninput = 1": "the key 'prices.m.output' is missing",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_value_that_does_not_fit_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, LEAST + text)
    assert WRONG[text] in raised.value.message


@pytest.mark.parametrize(
    "margins",
    ["", "margin = 0.1\nrelative_margin = 0.1", "scale = 1.0"],
    ids=["none", "both", "scale"],
)
def test_a_guardrail_takes_one_of_the_two_margins(tmp_path: Path, margins: str) -> None:
    with pytest.raises(ConfigError, match="'cost' takes either margin or relative_margin"):
        read(tmp_path, f"{LEAST}[[guardrails]]\nmetric = 'cost'\n{margins}")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (
            "command = 'ask {question}'",
            "command has {question}, which is not a placeholder. Write {input}",
        ),
        ("command = 'ask'\nstdin = '{input} {'", "stdin has a single brace beside a placeholder"),
        ("command = 'ask'\noutput = 'first_line'", 'output should be "last_line" or "file:PATH"'),
        ("command = 'ask'\noutput = 'file:../a'", "a path in the project's folder"),
        ("command = 'ask'\nbody = '{}'", "body needs url under [agent]"),
        ("url = 'http://a/b'\nstdin = 'x'", "stdin needs command under [agent]"),
        ("url = 'http://a/b'\nserve = 'npm start'", "serve starts a service on this machine"),
        (
            "url = 'http://[::1]:1/b'\nserve = 'run {input}'",
            "serve has {input}, which is not a placeh",
        ),
        ("url = 'http://a/b'\nbody = '{input}'", "body should be JSON"),
        (
            "url = 'http://a/b'\nbody = '[\"{input} {x}\"]'",
            "body has {x}, which is not a placeholder",
        ),
        ("entry = 'a:b'\noutput = 'x'", "output needs command or url under [agent]"),
        (
            "entry = 'a:b'\n[agent.arguments]\nq = ['{inputs}']",
            "arguments has {inputs}, which is no",
        ),
        (
            "url = 'http://a/b'\n[agent.construct]\nq = 1",
            "construct needs entry under [agent]",
        ),
    ],
)
def test_a_setting_of_another_kind_of_agent_or_a_wrong_placeholder_is_told(
    tmp_path: Path, agent: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, f"[agent]\n{agent}\n")
    assert said in raised.value.message


def test_what_an_agent_is_given_is_read(tmp_path: Path) -> None:
    command = read(tmp_path, "[agent]\ncommand = \"ask 'a b' {input.q}\"\nstdin = ''").agent
    assert command.handover.words == ("ask", "a b", "{input.q}")
    assert command.handover.stdin == ""
    url = "url = 'http://localhost:3000/x'\nserve = 'npm run start -- {port}'\n"
    service = read(tmp_path, f'[agent]\n{url}body = \'{{"q": ["{{input}}"]}}\'\n').agent
    assert service.handover.body == {"q": ["{input}"]}
    assert service.serving == ("npm", "run", "start", "--", "{port}")
    assert not service.runs_already
    entry = "entry = 'a:B.c'\n[agent.arguments]\nday = 2024-05-10\n[agent.construct]\nn = 1\n"
    assert read(tmp_path, f"[agent]\n{entry}").agent.parameters == {
        "arguments": {"day": "2024-05-10"},
        "construct": {"n": 1},
    }


@pytest.mark.parametrize("entry", ["module", "module:", ":f", "mod ule:f", "a:b:c", "a-b:c", ""])
def test_an_entry_that_is_no_entry_is_shown(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ConfigError, match=f"agent.entry = '{entry}' is not MODULE:FUNCTION"):
        read(tmp_path, f'[agent]\nentry = "{entry}"\n')


def test_the_agent_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not say how to run the agent"):
        read(tmp_path, "")
    with pytest.raises(ConfigError, match=r"\[agent\] needs one of entry .*, command .* and url"):
        read(tmp_path, "[agent]")


def test_an_agent_is_a_function_or_a_command_or_a_service(tmp_path: Path) -> None:
    agent = read(tmp_path, "[agent]\ncommand = 'node a.js'\nmodel_base_url = 'LLM_URL'\n").agent
    assert (agent.label, agent.model_base_url) == ("node a.js", ("LLM_URL",))
    both = "[agent]\ncommand = 'node a.js'\nurl = 'http://127.0.0.1:3000/'\n"
    with pytest.raises(ConfigError, match="it has command and url"):
        read(tmp_path, both)
    with pytest.raises(ConfigError, match="are variables of a command"):
        read(tmp_path, "[agent]\nentry = 'm:f'\nmodel_base_url = ['LLM_URL']\n")
    with pytest.raises(ConfigError, match="model_base_url"):
        read(tmp_path, "[agent]\ncommand = 'a'\nmodel_base_url = 'LLM URL'\n")


def test_several_problems_are_told_at_once(tmp_path: Path) -> None:
    wrong = "".join(f"unknown{i} = 1\n" for i in range(7))
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, f"{LEAST}[run]\nattempts = 0\n[ship]\n{wrong}")
    assert "run.attempts" in raised.value.message
    assert "ship.unknown3" in raised.value.message
    assert "(3 more problems.)" in raised.value.message


def test_a_missing_file_says_what_the_least_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no ratchet\.toml in") as raised:
        read_config(tmp_path / "ratchet.toml")
    assert "[agent] entry" in str(raised.value.hint)


def test_malformed_toml_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not TOML: .*line 4"):
        read(tmp_path, f"{LEAST}\n[run\n")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 9"):
        read(tmp_path, b"[agent]\n\xff")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_config(tmp_path / "folder")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf" + LEAST.replace("\n", "\r\n").encode()
    assert read(tmp_path, text).agent.entry == "module:function"
