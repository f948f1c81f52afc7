"""`agentlightning` 0.3's APO on the room-booking prompt, as in its own example of this task.

As there, a model grades the answer, so that the error is among the messages that the critique is
made from; here the verdict is the evaluator's, passed to a grader that repeats the score.
"""

from __future__ import annotations

import logging
import os
import random
import time
from typing import Any

import agentlightning as agl
from booking import COACH, GRADER, MODEL, TOOLS, TURNS, done, job, judge, messages_of, tool_result
from openai import AsyncOpenAI, OpenAI

_client: OpenAI | None = None


@agl.rollout
def book(task: Any, prompt_template: agl.PromptTemplate) -> float:
    """Run one rollout, in a process of a runner."""
    global _client
    if _client is None:
        _client = OpenAI(base_url=os.environ["PROMPT_SEARCH_URL"], api_key="none", max_retries=0)
    try:
        messages = messages_of(prompt_template.template, task)
    except Exception as error:
        agl.emit_message(f"The agent failed: {type(error).__name__}: {error}")
        return 0.0
    answer = ""
    for _ in range(TURNS):
        completion = _client.chat.completions.create(
            model=MODEL, messages=messages, tools=TOOLS, temperature=0
        )
        message = completion.choices[0].message
        if not message.tool_calls:
            answer = (message.content or "").strip()
            break
        messages.append(message.model_dump(exclude_none=True))
        messages += [tool_result(call) for call in message.tool_calls]
    verdict = judge(answer, task["expected"], task)
    asked = (
        f"Grade the answer {answer!r} of a booking assistant from 0 to 1."
        f" {verdict.rationale} The score is {verdict.value}"
    )
    _client.chat.completions.create(model=GRADER, messages=[{"role": "user", "content": asked}])
    agl.emit_message(verdict.rationale)
    return verdict.value


def main() -> None:
    given = job()
    os.environ["PROMPT_SEARCH_URL"] = given["base_url"]
    options = dict(given["options"])
    runners = options.pop("n_runners")
    logging.getLogger("agentlightning").setLevel(logging.ERROR)
    random.seed(given["seed"])
    algorithm: Any = agl.APO(
        AsyncOpenAI(base_url=given["base_url"], api_key="none"),
        gradient_model=COACH,
        apply_edit_model=COACH,
        **options,
    )
    trainer = agl.Trainer(
        algorithm=algorithm,
        n_runners=runners,
        initial_resources={
            "prompt_template": agl.PromptTemplate(template=given["prompt"], engine="f-string")
        },
        adapter=agl.TraceToMessages(),
    )
    began = time.perf_counter()
    trainer.fit(agent=book, train_dataset=given["train"], val_dataset=given["val"])
    done(algorithm.get_best_prompt().template, began)


if __name__ == "__main__":
    main()
