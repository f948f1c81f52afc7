"""An agent whose model verl would train: it asks twice, and the letters of its answers count."""

from __future__ import annotations

import openai

import ratchet
from ratchet.server.verl import VerlRollouts


@ratchet.agent
def agent(task: str, llm: ratchet.Model) -> float:
    client = openai.OpenAI(base_url=llm.base_url, api_key="none", max_retries=0)
    messages: list[dict[str, str]] = [{"role": "user", "content": task}]
    said = []
    for question in ("And then?", ""):
        answer = client.chat.completions.create(
            model=llm.model,
            messages=messages,  # type: ignore[arg-type]
            max_tokens=6,
        )
        said.append(answer.choices[0].message.content or "")
        messages += [
            {"role": "assistant", "content": said[-1]},
            {"role": "user", "content": question},
        ]
    return float(sum(letter in "abcdefghijklm" for letter in "".join(said)))


open_sampler = VerlRollouts(
    agent,
    ["one", "two", "three"],
    ["four"],
    initial_resources={"llm": ratchet.Model("local")},
    progress=False,
    n_runners=4,
)
