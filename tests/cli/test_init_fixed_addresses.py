"""`ratchet init` of agents whose model clients take no address from a variable."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from ratchet.autopilot.config import read_config
from ratchet.types import ConfigError
from tests.cli.simulated_model import LEARNED, answer, completion
from tests.cli.test_init_watching import Wired, repository
from tests.free_ports import free_port
from tests.repositories import git
from tests.server.gateway.upstreams import Seen, StubUpstream, Wire, reply

OWN_KEY = "gsk-of-the-owner"


def script(seen: Seen, wire: Wire) -> None:
    """A provider: OpenAI's protocol, Ollama's, Gemini's and Bedrock's."""
    path = seen.target.partition("?")[0]
    if path.endswith("/api/tags"):
        wire.send(reply({"models": [{"name": "llama3"}]}))
        return
    body = seen.json
    if path.endswith("GenerateContent"):
        said = answer(
            body["systemInstruction"]["parts"][0]["text"], body["contents"][0]["parts"][0]["text"]
        )
        assert body.keys() == {"systemInstruction", "contents"}
        pieces = [{"content": {"role": "model", "parts": [{"text": piece}]}} for piece in said]
        used = {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}
        last = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": used}
        chunks = [*({"candidates": [piece]} for piece in pieces), last]
        stream = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks).encode()
        wire.send(reply(stream, content_type="text/event-stream"))
        return
    if path.endswith("/converse"):
        said = answer(body["system"][0]["text"], body["messages"][0]["content"][0]["text"])
        message = {"role": "assistant", "content": [{"text": said}]}
        wire.send(reply({"output": {"message": message}, "stopReason": "end_turn"}))
        return
    if path.endswith("/api/generate"):
        said = answer(body.get("system", ""), body["prompt"])
        wire.send(reply({"model": body["model"], "response": said, "done": True}))
        return
    system = "".join(m["content"] for m in body["messages"] if m["role"] == "system")
    said = answer(system, body["messages"][-1]["content"])
    if path.endswith("/api/chat"):
        lines = [
            {"model": "m", "message": {"role": "assistant", "content": piece}, "done": False}
            for piece in said
        ]
        lines.append(
            {
                "model": "m",
                "message": {"role": "assistant", "content": ""},
                "done": True,
                "done_reason": "stop",
                "prompt_eval_count": 7,
                "eval_count": 3,
            }
        )
        stream = "".join(json.dumps(line) + "\n" for line in lines).encode()
        wire.send(reply(stream, content_type="application/x-ndjson"))
        return
    wire.send(reply(completion(said)))


@pytest.fixture
def provider() -> Iterator[StubUpstream]:
    model = StubUpstream(script)
    yield model
    model.close()


@pytest.fixture
def other_provider() -> Iterator[StubUpstream]:
    model = StubUpstream(script)
    yield model
    model.close()


def wired(tmp_path: Path, files: dict[str, str], **addresses: StubUpstream) -> Wired:
    """A repository with its providers' addresses in the code; no variable names any."""
    place = next(iter(addresses.values()))
    for name, upstream in addresses.items():
        files = {
            path: text.replace(name, f"http://{host(upstream)}") for path, text in files.items()
        }
    shop = repository(tmp_path, place, files)
    for name in [name for name in shop.environ if name.startswith(("OPENAI", "ANTHROPIC"))]:
        del shop.environ[name]
    shop.environ["SHOP_KEY"] = OWN_KEY
    return shop


def host(upstream: StubUpstream) -> str:
    return f"127.0.0.1:{upstream.port}"


def holds(said: dict[str, Any]) -> dict[str, bool | None]:
    return {finding["name"]: finding["holds"] for finding in said["findings"]}


ALL_VERIFIED = dict.fromkeys(("model calls", "prompts", "changed prompt", "answer"), True)

TASKS = "".join(
    json.dumps({"input": f"Sell {name}", "expected": name.upper()}) + "\n"
    for name in (
        *("cup", "mug", "pot", "pan", "jug", "bowl", "fork", "spoon", "knife", "plate"),
        *("tray", "whisk"),
    )
)


def improve(shop: Wired) -> None:
    """Learn from tasks that only learned examples solve."""
    (shop.root / "tasks.jsonl").write_text(TASKS)
    with (shop.root / "ratchet.toml").open("a") as settings:
        settings.write(
            '\n[[evaluators]]\nuse = "exact_match"\n\n[improve]\nalgorithm = "few_shot"\n'
        )
    git(shop.root, "commit", "-qam", "Tasks")
    done = shop.ratchet("improve", "--json")
    assert done.returncode == 0, done.stderr


def output_of(shop: Wired, question: str) -> Any:
    done = shop.ratchet("run", question, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    [rollout] = json.loads(done.stdout)["rollouts"]
    assert rollout["status"] == "succeeded", rollout["error"]
    return rollout["output"]


AT_IMPORT = {
    "shop.py": """
        import os, httpx
        client = httpx.Client(base_url="GROQ/openai/v1")
        key = os.environ["SHOP_KEY"]

        def answer(question):
            body = {"model": "llama", "messages": [
                {"role": "system", "content": "You answer for the shop."},
                {"role": "user", "content": question}]}
            headers = {"authorization": f"Bearer {key}"}
            answered = client.post("/chat/completions", json=body, headers=headers)
            return answered.json()["choices"][0]["message"]["content"]
    """,
    "main.py": """
        import sys
        from shop import answer
        print(answer(sys.argv[1]))
    """,
}


def test_a_client_that_is_made_at_import_with_an_address_in_code_is_led_and_learns(
    tmp_path: Path, provider: StubUpstream
) -> None:
    shop = wired(tmp_path, AT_IMPORT, GROQ=provider)
    said = shop.init("--", sys.executable, "main.py", "Sell cup")
    assert (said["mode"], said["agent"]["model_hosts"]) == ("entry", [host(provider)])
    assert holds(said) == ALL_VERIFIED
    assert len(provider.seen) == 1  # the recorded run alone; a recording answers the check
    assert output_of(shop, "Sell mug") == "mug"
    [_, seen] = provider.seen
    assert (seen.target, seen.header("authorization")) == (
        "/openai/v1/chat/completions",
        f"Bearer {OWN_KEY}",
    )
    assert not [name for name, _ in seen.headers if name.startswith("x-ratchet")]
    improve(shop)
    sent = [seen.json["messages"][0]["content"] for seen in provider.seen]
    assert any(LEARNED.search(text) for text in sent)


def test_the_key_that_model_calls_are_made_with_is_named(
    tmp_path: Path, provider: StubUpstream
) -> None:
    source = 'import os\nos.environ["MAIL_KEY"]\n' + textwrap.dedent(AT_IMPORT["shop.py"])
    shop = wired(tmp_path, {**AT_IMPORT, "shop.py": source}, GROQ=provider)
    del shop.environ["SHOP_KEY"]
    said = shop.init("--simulated", "--", sys.executable, "main.py", "Sell cup")
    key = "set the key of a real model (SHOP_KEY) in the environment"
    assert any(step.startswith(key) for step in said["next"])


def test_each_of_two_hosts_gets_its_own_calls(
    tmp_path: Path, provider: StubUpstream, other_provider: StubUpstream
) -> None:
    ask = """
        import json, os, urllib.request

        def ask(url, system, question):
            body = {"model": "m", "messages": [
                {"role": "system", "content": system}, {"role": "user", "content": question}]}
            headers = {"content-type": "application/json", "api-key": os.environ["SHOP_KEY"]}
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request) as answered:
                return json.load(answered)["choices"][0]["message"]["content"]

        AZURE = "OTHER/openai/deployments/fast/chat/completions?api-version=2024-10-21"

        def answer(question):
            product = ask("GROQ/v1/chat/completions", "You name the product.", question)
            return ask(AZURE, "You answer for the shop.", "Sell " + product)
    """
    shop = wired(
        tmp_path,
        {"shop.py": ask, "main.py": AT_IMPORT["main.py"]},
        GROQ=provider,
        OTHER=other_provider,
    )
    said = shop.init("--", sys.executable, "main.py", "Sell cup")
    assert said["agent"]["model_hosts"] == sorted([host(provider), host(other_provider)])
    assert holds(said) == ALL_VERIFIED
    assert output_of(shop, "Sell mug") == "mug"
    assert [seen.target for seen in provider.seen] == 2 * ["/v1/chat/completions"]
    assert [seen.target for seen in other_provider.seen] == 2 * [
        "/openai/deployments/fast/chat/completions?api-version=2024-10-21"
    ]
    assert other_provider.seen[-1].header("api-key") == OWN_KEY


def test_an_agent_that_speaks_ollamas_protocol_streams_and_learns(
    tmp_path: Path, provider: StubUpstream
) -> None:
    shop = wired(
        tmp_path,
        {
            "shop.py": """
                import json, httpx

                def answer(question):
                    [model] = httpx.get("OLLAMA/api/tags").raise_for_status().json()["models"]
                    body = {"model": model["name"], "messages": [
                        {"role": "system", "content": "You answer for the shop."},
                        {"role": "user", "content": question}], "options": {"temperature": 0}}
                    with httpx.stream("POST", "OLLAMA/api/chat", json=body) as lines:
                        return "".join(
                            json.loads(line)["message"]["content"] for line in lines.iter_lines())
            """,
            "main.py": AT_IMPORT["main.py"],
        },
        OLLAMA=provider,
    )
    said = shop.init("--", sys.executable, "main.py", "Sell cup")
    assert holds(said) == ALL_VERIFIED
    assert shop.settings["agent"]["allow"]["hosts"] == [f"localhost:{provider.port}"]
    improve(shop)
    asked = [seen for seen in provider.seen if seen.target.endswith("/api/chat")]
    assert any(LEARNED.search(seen.json["messages"][0]["content"]) for seen in asked)


def test_an_agent_that_speaks_geminis_protocol_streams_and_learns(
    tmp_path: Path, provider: StubUpstream
) -> None:
    shop = wired(
        tmp_path,
        {
            "shop.py": """
                import json, httpx

                URL = "GEMINI/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse"

                def answer(question):
                    body = {"systemInstruction": {"parts": [{"text": "You answer for the shop."}]},
                            "contents": [{"role": "user", "parts": [{"text": question}]}]}
                    keys = {"x-goog-api-key": "g"}
                    said = ""
                    with httpx.stream("POST", URL, json=body, headers=keys) as lines:
                        for line in lines.iter_lines():
                            if line.startswith("data: "):
                                chunk = json.loads(line[6:])["candidates"][0]
                                for part in chunk.get("content", {}).get("parts", []):
                                    said += part["text"]
                    return said
            """,
            "main.py": AT_IMPORT["main.py"],
        },
        GEMINI=provider,
    )
    said = shop.init("--", sys.executable, "main.py", "Sell cup")
    assert holds(said) == ALL_VERIFIED
    assert output_of(shop, "Sell mug") == "mug"
    improve(shop)
    prompts = [seen.json["systemInstruction"]["parts"][0]["text"] for seen in provider.seen]
    assert any(LEARNED.search(text) for text in prompts)
    assert {seen.header("x-goog-api-key") for seen in provider.seen} == {"g"}
    assert {seen.target.partition("?")[0] for seen in provider.seen} == {
        "/v1beta/models/gemini-2.0-flash:streamGenerateContent"
    }


def test_another_protocol_reaches_its_host_and_is_said_to_be_none_of_the_gateways(
    tmp_path: Path, provider: StubUpstream
) -> None:
    shop = wired(
        tmp_path,
        {
            "main.py": """
                import sys, httpx
                url = "BEDROCK/model/anthropic.claude/converse"
                body = {"system": [{"text": "You answer for the shop."}],
                        "messages": [{"role": "user", "content": [{"text": sys.argv[1]}]}]}
                answered = httpx.post(url, json=body, headers={"authorization": "Bearer b"}).json()
                print(answered["output"]["message"]["content"][0]["text"])
            """
        },
        BEDROCK=provider,
    )
    said = shop.init("--", sys.executable, "main.py", "Sell cup")
    assert holds(said) == {**ALL_VERIFIED, "changed prompt": None}
    [why] = [found["said"] for found in said["findings"] if found["name"] == "changed prompt"]
    assert "Bedrock's protocol" in why
    assert output_of(shop, "Sell mug") == "mug"
    assert provider.seen[-1].header("authorization") == "Bearer b"


def test_a_contained_agent_reaches_no_other_host_and_sends_nothing_else_by_the_relay(
    tmp_path: Path, provider: StubUpstream, other_provider: StubUpstream
) -> None:
    files = {
        "shop.py": AT_IMPORT["shop.py"].replace(
            "def answer(question):",
            """def tried(host, path, body, method="POST"):
            relay = os.environ.get("RATCHET_MODEL_RELAY")
            if not relay:
                return 0
            url = f"{relay}/http/{host}{path}"
            if method == "TO":
                method, url = "POST", f"{relay.rpartition('/')[0]}/to/http/{host}{path}"
            return httpx.request(method, url, json=body).status_code

        def answer(question):
            asked = {"model": "m", "messages": [{"role": "user", "content": "Sell me"}]}
            own, other = "GROQ".split("/")[2], "OTHER".split("/")[2]
            seen = [
                tried(other, "/v1/chat/completions", asked),
                tried(other, "/v1/chat/completions", asked, method="TO"),
                tried(f"{own}@{other}", "/v1/chat/completions", asked),
                tried(own, "/upload", {"stolen": "everything"}),
                tried(own, "/v1/chat/completions", asked, method="PUT"),
            ]
            if any(status not in (0, 403, 409) for status in seen):
                return f"It got out: {seen}"
""",
        ),
        "main.py": AT_IMPORT["main.py"],
    }
    shop = wired(tmp_path, files, GROQ=provider, OTHER=other_provider)
    shop.init("--", sys.executable, "main.py", "Sell cup")
    assert output_of(shop, "Sell mug") == "mug"
    assert not other_provider.seen
    assert [seen.target for seen in provider.seen] == 2 * ["/openai/v1/chat/completions"]


def test_a_started_service_is_led_too(tmp_path: Path, provider: StubUpstream) -> None:
    shop = wired(
        tmp_path,
        {
            "shop.py": AT_IMPORT["shop.py"],
            "service.py": """
                import json, os
                from http.server import BaseHTTPRequestHandler, HTTPServer
                from shop import answer

                class Handler(BaseHTTPRequestHandler):
                    def do_POST(self):
                        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                        said = json.dumps({"answer": answer(body["question"])}).encode()
                        self.send_response(200)
                        self.send_header("content-type", "application/json")
                        self.end_headers()
                        self.wfile.write(said)

                HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
            """,
        },
        GROQ=provider,
    )
    port = free_port()
    shop.environ["PORT"] = str(port)
    (shop.root / "ratchet.toml").write_text(
        f"""
        [agent]
        serve = "{sys.executable} service.py"
        url = "http://127.0.0.1:{port}/ask"
        body = '{{"question": "{{input}}"}}'
        output = "answer"
        model_hosts = ["{host(provider)}"]
        """
    )
    assert output_of(shop, "Sell mug") == "mug"
    assert [seen.target for seen in provider.seen] == ["/openai/v1/chat/completions"]


def test_settings_say_what_a_model_host_is_and_who_has_none(tmp_path: Path) -> None:
    for text, said in (
        ('command = "a"\nmodel_hosts = ["https://api.groq.com/v1"]', "model_hosts"),
        ('entry = "m:f"\nmodel_hosts = ["api.groq.com"]', 'prompts = "calls"'),
        ('url = "http://127.0.0.1:1/a"\nmodel_hosts = ["api.groq.com"]', "serve"),
    ):
        (tmp_path / "ratchet.toml").write_text(f"[agent]\n{text}\n")
        with pytest.raises(ConfigError, match=said):
            read_config(tmp_path / "ratchet.toml")
    (tmp_path / "ratchet.toml").write_text(
        '[agent]\ncommand = "a"\nmodel_hosts = ["[::1]:11434"]\n'
    )
    assert read_config(tmp_path / "ratchet.toml").agent.model_hosts == ("[::1]:11434",)


IN_NODE = {
    "agent.js": """
        const body = { model: "llama", messages: [
          { role: "system", content: "You answer for the shop." },
          { role: "user", content: process.argv[2] }] };
        const headers = { authorization: `Bearer ${process.env.SHOP_KEY}`,
          "content-type": "application/json" };
        FETCHED.then((answered) => console.log(answered.choices[0].message.content));
    """,
}
CLIENTS = {
    "fetch": """fetch("GROQ/openai/v1/chat/completions",
          { method: "POST", headers, body: JSON.stringify(body) }).then((got) => got.json())""",
    "http": """new Promise((resolve) => require("http").request("GROQ/openai/v1/chat/completions",
          { method: "POST", headers }, (got) => {
            let text = "";
            got.on("data", (part) => (text += part)).on("end", () => resolve(JSON.parse(text)));
          }).end(JSON.stringify(body)))""",
}


@pytest.mark.parametrize(
    "runtime",
    ["node", pytest.param("bun", marks=pytest.mark.skipif(not which("bun"), reason="no Bun"))],
)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_in_node_or_bun_with_an_address_in_code_is_led_in_rollouts(
    client: str, runtime: str, tmp_path: Path, provider: StubUpstream
) -> None:
    source = IN_NODE["agent.js"].replace("FETCHED", CLIENTS[client])
    shop = wired(tmp_path, {"agent.js": source}, GROQ=provider)
    said = shop.init("--", runtime, "agent.js", "Sell cup")
    assert (said["mode"], said["agent"]["model_hosts"]) == ("command", [host(provider)])
    assert holds(said) == ALL_VERIFIED
    assert output_of(shop, "Sell mug") == "mug"
    assert provider.seen[-1].header("authorization") == f"Bearer {OWN_KEY}"
