"""Model calls are seen through every client, with a fixed address and as streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wire.recording.recorded import functions, project, recorded

CLIENTS = {
    "httpx2": """
        import openai
        def answer(question):
            client = openai.OpenAI(base_url=f"{URL}/v1", api_key="k")
            said = client.responses.create(model="m", instructions=SYSTEM, input=question)
            return said.output_text
    """,
    "httpx": """
        import httpx, json
        def answer(question):
            body = {"model": "m", "stream": True, "messages": messages(question)}
            said = []
            with httpx.Client() as client:
                with client.stream("POST", URL + "/v1/chat/completions", json=body) as response:
                    for line in response.iter_lines():
                        if line.startswith("data: {"):
                            said += [c["delta"].get("content") or ""
                                     for c in json.loads(line[6:])["choices"]]
            return "".join(said)
    """,
    "urllib3": """
        import requests
        def answer(question):
            session = requests.Session()
            session.headers.update({"Authorization": "Bearer k"})
            body = {"max_tokens": 9, "system": SYSTEM, "messages": messages(question)[1:]}
            said = session.post(URL + "/v1/messages", json=body)
            assert said.url == URL + "/v1/messages"
            return said.json()["content"][0]["text"]
    """,
    "aiohttp": """
        import aiohttp, asyncio
        async def asked(question):
            part = {"parts": [{"text": question}]}
            body = {"contents": [{"role": "user", **part}],
                    "systemInstruction": {"parts": [{"text": SYSTEM}]}}
            async with aiohttp.ClientSession(base_url=URL) as session:
                async with session.post("/v1beta/models/g:generateContent", json=body) as response:
                    said = await response.json()
            return said["candidates"][0]["content"]["parts"][0]["text"]
        def answer(question):
            return asyncio.run(asked(question))
    """,
    "http.client": """
        import json, urllib.request
        def answer(question):
            body = json.dumps({"model": "m", "messages": messages(question), "stream": False})
            request = urllib.request.Request(URL + "/api/chat", body.encode())
            return json.load(urllib.request.urlopen(request))["message"]["content"]
    """,
}
DIALECTS = {
    "httpx2": "openai-responses",
    "httpx": "openai-chat",
    "urllib3": "anthropic",
    "aiohttp": "gemini",
    "http.client": "ollama",
}
MAIN = """
import os, sys
URL, SYSTEM = os.environ["UPSTREAM"], "You answer shortly."
def messages(question):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
"""


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_is_seen_with_its_prompt_its_answer_and_its_stack(
    client: str, tmp_path: Path, upstream: str
) -> None:
    root = project(tmp_path)
    lines = [line[4:] for line in CLIENTS[client].splitlines()]
    text = MAIN + "\n".join(line[4:] for line in lines) + "\nprint(answer(sys.argv[1]))\n"
    (root / "main.py").write_text(text)
    recording = recorded(root, "main.py", "Where is it?", upstream=upstream)
    assert recording.exit_code == 0, recording.stderr_tail
    [call] = recording.calls
    assert (call.client, call.dialect, call.status) == (client, DIALECTS[client], 200)
    assert call.response == recording.stdout.strip() != ""
    assert ("user", "Where is it?") in [(text.role, text.text) for text in call.texts]
    assert [text.text for text in call.texts if text.role == "system"] == ["You answer shortly."]
    assert functions(call)[:2] == ["<module>", "answer"]
    assert f"http://{call.host}" == upstream
    assert call.streamed == (client == "httpx")
    assert not recording.contacts


def test_what_is_no_model_call_goes_its_own_way_and_is_a_contact(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        main="""
        import os, requests
        url = os.environ["UPSTREAM"]
        for number in range(2):
            requests.post(url + "/search?q=1", json={"query": "lamp", "limit": number})
        requests.get(url + "/orders")
        """,
    )
    recording = recorded(root, "main.py", upstream=upstream)
    assert not recording.calls
    [contact] = recording.contacts
    assert contact.port == int(upstream.rpartition(":")[2])
    assert contact.requests == {"POST /search": 2, "GET /orders": 1}


def test_the_environment_is_the_owners_own_for_the_program_and_leads_other_programs(
    tmp_path: Path, upstream: str
) -> None:
    root = project(
        tmp_path,
        main="""
        import os, subprocess
        print(os.environ.get("OPENAI_BASE_URL"), os.environ["LLM_BASE_URL"], flush=True)
        subprocess.run(["sh", "ask.sh"], check=True)
        """,
    )
    body = '{"model": "m", "messages": [{"role": "user", "content": "From a shell"}]}'
    (root / "ask.sh").write_text(
        f"curl -s -d '{body}' -H 'content-type: application/json' $LLM_BASE_URL/chat/completions\n"
    )
    (root / ".env").write_text('OPENAI_API_KEY="a-key-that-is-secret"\n')
    recording = recorded(root, "main.py", upstream=upstream, LLM_BASE_URL=f"{upstream}/v1")
    assert recording.stdout.startswith(f"None {upstream}/v1\n")
    [call] = recording.calls
    assert [text.text for text in call.texts] == ["From a shell"]
    assert call.stack == ()
    assert "sh" in [Path(program.path).name.replace("dash", "sh") for program in recording.programs]
    assert any("Of 1 model call, 1 came" in note for note in recording.notes)
