"""The check of a wired agent: a real agent in a copy, a simulated model, no key and no way out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ratchet._http import httpx2
from ratchet.cli.app import run
from ratchet.wire.checking import CheckReport, check
from ratchet.wire.checking.simulated_answers import Asked, Tool, answer, sample
from ratchet.wire.checking.simulator import SimulatedModel

AGENT = """\
import os
import openai
from opentelemetry import trace

RULES = "You sort the shelves of a public library, and you explain each choice to the staff."


def send_mail(text):
    import smtplib
    smtplib.SMTP("127.0.0.1", 9).send_message(text)


def ask(question):
    if os.environ.get("LIBRARY") == "closed":
        return "The library is closed."
    open("seen.txt", "w").write(os.environ.get("OPENAI_API_KEY", "none"))
    client = openai.OpenAI()
    named = {"gen_ai.request.model": "gpt-4o-mini"}  # by a step that is no call
    trace.get_tracer("library").start_span("prepare", attributes=named).end()
    answer = client.chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "system", "content": RULES}, {"role": "user", "content": question}],
    )
    if "mail" in question:
        send_mail(answer.choices[0].message.content)
    return answer.choices[0].message.content
"""
TASK = {"input": "Where do atlases stand?", "expected": "x"}


def _git(folder: Path, *words: str) -> None:
    settings = ["-c", "user.name=Someone", "-c", "user.email=someone@example.com"]
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in (("NAME", "Someone"), ("EMAIL", "someone@example.com")):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    root = tmp_path / "library"
    root.mkdir()
    (root / "desk.py").write_text(AGENT)
    (root / "requirements.txt").write_text("openai\n")
    (root / ".env").write_text("OPENAI_API_KEY=never-read\n")
    (root / "questions.jsonl").write_text(
        json.dumps({"question": "Where do atlases stand?", "answer": "x"}) + "\n"
    )
    _git(root, "init", "-q")
    _git(root, "add", "desk.py", "requirements.txt", "questions.jsonl")
    _git(root, "commit", "-qm", "the agent")
    return root


def _states(report: CheckReport) -> dict[str, str]:
    return {one.what: one.state for one in report.findings}


def test_an_agent_is_wired_checked_and_left_as_it_is(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-real-key")
    (repository / "test_desk.py").write_text(
        "import a_package_of_nobody\n\ndef test_desk():\n    pass\n"
    )
    _git(repository, "add", "test_desk.py")
    _git(repository, "commit", "-qm", "a test")
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:ask"]) == 0
    report = check(repository, python=Path(sys.executable))
    assert {
        "agent": "verified",
        "trace": "verified",
        "spans": "verified",
        "same prompts": "verified",
        "changed prompts": "verified",
        "side effects": "verified",
        "tests": "not verified",
    }.items() <= _states(report).items(), report
    assert report.findings[-1].why.startswith("It needs the package a_package_of_nobody")
    assert not (repository / "seen.txt").exists(), "it ran in place"
    assert not (repository / ".ratchet").exists()
    assert "a-real-key" not in str(report)


def test_an_address_that_the_code_reads_under_a_name_of_its_own_leads_to_the_simulator(
    repository: Path,
) -> None:
    desk = repository / "desk.py"
    own = 'openai.OpenAI(base_url=os.getenv("LIBRARY_LLM_URL", "http://llm.invalid:4000"))'
    desk.write_text(desk.read_text().replace("openai.OpenAI()", own))
    _git(repository, "commit", "-qam", "own address")
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:ask"]) == 0
    report = check(repository, python=Path(sys.executable), tests=False)
    assert _states(report)["agent"] == "verified", report


def test_an_agent_that_no_task_can_run_is_said_to_need_a_function(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = repository / "desk.py"
    code = desk.read_text().replace("return answer.choices", "print(answer.choices")
    desk.write_text(f"{code.rstrip()})\n".replace('return "The library is closed."', "return"))
    _git(repository, "commit", "-qam", "prints")
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:ask"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ask cannot be called as a function: ask returns nothing" in said
    assert "Next: write ratchet_agent.py, then: ratchet init" in said
    (found,) = check(repository, python=Path(sys.executable)).findings
    assert (found.state, "has no [agent]" in found.why) == ("not verified", True)


def test_a_missing_package_is_not_verified_and_named(repository: Path) -> None:
    desk = repository / "desk.py"
    desk.write_text("import a_package_of_nobody\n" + desk.read_text())
    _git(repository, "commit", "-qam", "more")
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:ask"]) == 0
    (found,) = check(repository, python=Path(sys.executable)).findings
    assert (found.what, found.state) == ("agent", "not verified")
    assert "the package a_package_of_nobody" in found.why


def test_an_agent_that_asks_no_model_is_not_verified_and_its_output_told(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:ask"]) == 0
    monkeypatch.setenv("LIBRARY", "closed")
    words = ["init", str(repository), "--check", "--python", sys.executable, "--json"]
    capsys.readouterr()
    assert run([*words, "--variable", "LIBRARY"]) == 0
    first = json.loads(capsys.readouterr().out)["findings"][0]
    assert (first["what"], first["state"]) == ("agent", "not verified")
    assert 'asked no model. Its output: "The library is closed."' in first["why"]


@pytest.mark.long
def test_an_agent_that_logs_why_it_gave_nothing_is_not_verified_with_the_next_step(
    repository: Path,
) -> None:
    desk = repository / "desk.py"
    desk.write_text(desk.read_text() + LOGS)
    _git(repository, "commit", "-qam", "it needs a database")
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:look_up"]) == 0
    (found,) = check(repository, python=Path(sys.executable)).findings
    assert (found.state, "needs a server" in found.why) == ("not verified", True), found
    assert "ratchet init --check --variable LIBRARY_DATABASE_URL" in found.next_step


LOGS = """

def look_up(question: str):
    import logging
    import socket
    try:
        os.getenv("LIBRARY_DATABASE_URL")
        socket.create_connection(("127.0.0.1", 9))
        return ask(question)
    except Exception as error:
        logging.error("Error running agent: %s", error)
        return None
"""


@pytest.mark.long
def test_a_prompt_that_does_not_reach_the_model_fails(repository: Path) -> None:
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:ask"]) == 0
    desk = repository / "desk.py"
    desk.write_text(desk.read_text().replace('"content": RULES', '"content": "Sort."'))
    report = check(repository, python=Path(sys.executable))
    assert _states(report)["changed prompts"] == "failed"
    assert report.failed


@pytest.mark.long
def test_the_model_takes_another_way_to_a_prompt_that_it_did_not_reach(repository: Path) -> None:
    desk = repository / "desk.py"
    desk.write_text(desk.read_text() + ASKS_FIRST)
    _git(repository, "commit", "-qam", "it asks first")
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:clear"]) == 0
    report = check(repository, python=Path(sys.executable))
    assert _states(report)["changed prompts"] == "verified", report


ASKS_FIRST = """

UNCLEAR = "You decide whether a question to the library is unclear, and say so with yes or no."
FORM = {"type": "object", "properties": {"unclear": {"type": "boolean"}}}


def clear(question):
    import json
    answer = openai.OpenAI().chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "system", "content": UNCLEAR}, {"role": "user", "content": question}],
        response_format={"type": "json_schema", "json_schema": {"name": "form", "schema": FORM}},
    )
    if json.loads(answer.choices[0].message.content)["unclear"]:
        return "What do you mean?"
    return ask(question)
"""
ACTING = (
    AGENT.replace(
        """    import smtplib
    smtplib.SMTP("127.0.0.1", 9).send_message(text)
""",
        """    subprocess.run(["touch", {mail!r}])
""",
    )
    .replace("import os\n", "import os\nimport subprocess\n")
    .replace('if "mail" in question', "if question")
)


def _acting(repository: Path) -> Path:
    """Wire an agent that acts in each run; return the file that it makes when it does."""
    mail = repository.parent / "mail"
    (repository / "desk.py").write_text(ACTING.replace("{mail!r}", repr(str(mail))))
    _git(repository, "commit", "-qam", "it acts")
    assert run(["init", str(repository), "--yes", "--no-check", "--entry", "desk.py:ask"]) == 0
    return mail


@pytest.mark.long
def test_what_acts_does_not_act_in_the_tree_before_the_wiring_either(repository: Path) -> None:
    mail = _acting(repository)
    report = check(repository, python=Path(sys.executable))
    assert not mail.exists()
    found = {one.what: one for one in report.findings}
    assert found["side effects"].why.startswith("Denied: The tool 'send_mail'"), report
    assert found["same prompts"].state == "verified", report


def test_an_agent_is_not_run_when_the_mark_of_what_acts_was_removed(repository: Path) -> None:
    mail = _acting(repository)
    desk = repository / "desk.py"
    kept = desk.read_text().replace("@ratchet.tool(side_effects=True)\n", "")
    desk.write_text(
        kept.replace('ratchet.tool(name="send_mail", side_effects=True)(send_mail)', "send_mail")
    )
    assert "side_effects" not in desk.read_text()
    (found,) = check(repository, python=Path(sys.executable)).findings
    assert (found.what, found.state) == ("agent", "not verified")
    assert "desk.py:" in found.why
    assert not mail.exists()


def test_a_repository_that_was_not_wired_is_a_sentence(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(repository), "--check"]) == 2
    assert "was not wired by ratchet init" in capsys.readouterr().err


SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["a", "b"]},
        "count": {"type": "integer", "minimum": 3, "maximum": 3},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "minItems": 2},
        "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "at": {"type": "string", "format": "date"},
    },
    "required": ["kind", "count", "tags"],
    "$defs": {"Tag": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def test_what_the_simulator_makes_up_fits_the_schema() -> None:
    import jsonschema

    jsonschema.validate(sample(SCHEMA, "1a2b"), SCHEMA)


def test_where_a_tool_must_be_called_the_one_that_ends_it_comes_at_last() -> None:
    tools = [Tool("look_up", {}), Tool("final_result", {})]
    called: list[str] = []
    for _ in range(3):
        called.append(answer(Asked(["Where?"], tools, called, "*")).tool)
    assert called == ["look_up", "final_result", "final_result"]


def test_another_way_says_no_and_chooses_otherwise() -> None:
    schema = {"type": "object", "properties": {"unclear": {"type": "boolean"}}}
    said = [json.loads(answer(Asked(["Is it?"], schema=schema, way=way)).text) for way in (0, 1, 2)]
    assert said == [{"unclear": True}, {"unclear": False}, {"unclear": False}]
    tools = [Tool(name, {}) for name in "abc"]
    called = [answer(Asked(["Which?"], tools, way=way)).tool for way in range(3)]
    assert sorted(called) == ["a", "b", "c"]
    listed = "Stock Agent: looks prices up\nAuthentication Agent: logs in\nTransfer Agent: pays"
    transfer = Tool("transfer", {"type": "object", "properties": {"agent_name": {}}})
    sent = [answer(Asked([listed], [transfer], way=way)).arguments for way in range(3)]
    assert len({one["agent_name"] for one in sent}) == 3


def test_a_tool_that_reads_a_page_gets_the_address_of_one() -> None:
    fields = {"url": {"type": "string"}, "urls": {"type": "array"}, "topic": {"type": "string"}}
    tool = Tool("read", {"type": "object", "properties": fields})
    body = {
        "messages": [{"role": "user", "content": "Read."}],
        "tools": [{"type": "function", "function": {"name": tool.name, "parameters": tool.schema}}],
    }
    with SimulatedModel() as model:
        said = httpx2.post(f"{model.url}/v1/chat/completions", json=body).json()
        call = said["choices"][0]["message"]["tool_calls"][0]["function"]
        given = json.loads(call["arguments"])
        assert given["urls"] == [given["url"]]
        assert not given["topic"].startswith("http")
        assert "<p>It stands for the pages" in httpx2.get(given["url"]).text


def test_any_object_is_one_that_the_messages_name_or_that_holds_the_answer() -> None:
    assert list(json.loads(answer(Asked(["Where?"], schema={})).text)) == ["answer"]
    named = answer(Asked(['Answer in JSON: {"shelf": …, "floor": …}'], schema={})).text
    assert list(json.loads(named)) == ["shelf", "floor"]


def test_the_simulator_calls_a_tool_once_and_then_answers_by_the_prompt() -> None:
    tool = Tool("look", {"type": "object", "properties": {"title": {"type": "string"}}})
    first = answer(Asked(["Be brief.", "Where?"], [tool]))
    assert first.tool == "look"
    assert set(first.arguments) == {"title"}
    then = answer(Asked(["Be brief.", "Where?"], [tool], called=["look"]))
    other = answer(Asked(["Be long.", "Where?"], [tool], called=["look"]))
    assert then.text.startswith("Simulated answer")
    assert then.text != other.text
    assert answer(Asked(["Be brief.", "Where?"], [tool], called=["look"])) == then


REACT = """\
Your output fields are next_thought, next_tool_name and next_tool_args.
(1) look, whose description is Looks. It takes arguments {'page': {'type': 'integer'}}.
(2) finish, whose description is <desc>Ends.</desc>. It takes arguments {}."""
MARKED = (
    "[[ ## trajectory ## ]]\n%s\nRespond with the corresponding output fields, starting with the"
    " field `[[ ## next_thought ## ]]`, then `[[ ## next_tool_name ## ]]` (must be formatted as a"
    " valid Python Literal['look', 'finish']), then `[[ ## next_tool_args ## ]]` (must be formatted"
    " as a valid Python dict[str, Any]), and then ending with the marker for"
    " `[[ ## completed ## ]]`."
)
IN_JSON = (
    "Respond with a JSON object in the following order of fields: `kind` (must be formatted as a"
    " valid Python Literal['a', 'b']), then `sure` (must be formatted as a valid Python bool), then"
    " `answer`."
)


def test_the_simulator_gives_fields_of_dspy_their_types() -> None:
    first = answer(Asked([REACT, MARKED % ""])).text
    assert "[[ ## next_tool_name ## ]]\nlook\n" in first
    assert '[[ ## next_tool_args ## ]]\n{"page": 1}\n' in first
    assert first.endswith("[[ ## completed ## ]]")
    then = answer(Asked([REACT, MARKED % "[[ ## tool_name_0 ## ]]\nlook"])).text
    assert "[[ ## next_tool_name ## ]]\nfinish\n" in then
    found = json.loads(answer(Asked([REACT, IN_JSON])).text)
    assert list(found) == ["kind", "sure", "answer"]
    assert found["kind"] in ("a", "b")
    assert found["sure"] is True
    assert found["answer"].startswith("Simulated answer")


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "Where?"}]},
            ("choices", 0, "message", "content"),
        ),
        ("/v1/responses", {"input": "Where?"}, ("output", 0, "content", 0, "text")),
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": "Where?"}]},
            ("content", 0, "text"),
        ),
        (
            "/v1beta/models/x:generateContent",
            {"contents": [{"parts": [{"text": "Where?"}]}]},
            ("candidates", 0, "content", "parts", 0, "text"),
        ),
        (
            "/api/chat",
            {"messages": [{"role": "user", "content": "Where?"}], "stream": False},
            ("message", "content"),
        ),
        ("/api/generate", {"prompt": "Where?", "stream": False}, ("response",)),
    ],
)
def test_each_api_answers_in_its_own_form_and_says_that_it_is_simulated(
    path: str, body: dict[str, Any], place: tuple[Any, ...]
) -> None:
    with SimulatedModel() as model, httpx2.Client(trust_env=False) as client:
        found = client.post(model.url + path, json=body).json()
        streamed = client.post(model.url + path, json={**body, "stream": True}).text
        assert model.taken() == [["Where?"], ["Where?"]]
        assert client.post(model.url + "/nowhere", json={}).status_code == 404
        assert client.post(model.url + path, content=b"{").status_code == 400
    assert "ratchet-simulated-model" in json.dumps(found)
    for key in place:
        found = found[key]
    assert found.startswith("Simulated answer")
    assert "Simulated answer" in streamed


def test_embeddings_are_as_long_as_those_of_the_named_model() -> None:
    with SimulatedModel() as model, httpx2.Client(trust_env=False) as client:

        def post(path: str, **body: Any) -> Any:
            return client.post(model.url + path, json=body).json()

        small = post("/v1/embeddings", model="text-embedding-3-small", input=["a", "b"])["data"]
        asked = post("/v1/embeddings", model="x", input="a", dimensions=8)["data"]
        old = post("/api/embeddings", model="nomic-embed-text", prompt="a")
        new = post("/api/embed", model="nomic-embed-text", input=["a", "b"])
        assert client.get(model.url + "/api/tags").json()["models"]
    assert [len(one["embedding"]) for one in (*small, *asked)] == [1536, 1536, 8]
    assert new["embeddings"][0] == old["embedding"] != new["embeddings"][1]
    assert len(old["embedding"]) == 768
    assert 0.8 < sum(one * one for one in small[0]["embedding"]) < 1.2


def test_a_variable_that_is_not_set_is_a_sentence(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(repository), "--check", "--variable", "NO_SUCH_ADDRESS"]) == 2
    assert "NO_SUCH_ADDRESS is not set" in capsys.readouterr().err
