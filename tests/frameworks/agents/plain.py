"""Plain Python: no library, our decorators."""

from typing import Any

import ratchet

ratchet.init()


@ratchet.tool
def get_weather(city: str) -> str:
    return "18 C"


@ratchet.llm_call
def ask(model: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    if messages[-1]["role"] == "tool":
        said = {"role": "assistant", "content": f"The weather in Paris: {messages[-1]['content']}."}
        usage = {"prompt_tokens": 60, "completion_tokens": 11}
    else:
        function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        call = {"id": "call_1", "type": "function", "function": function}
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 42, "completion_tokens": 7}
    return {"model": model, "choices": [{"message": said}], "usage": usage}


@ratchet.agent
def assistant(question: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    said = ask("my-model", messages)["choices"][0]["message"]
    result = get_weather("Paris")
    messages += [said, {"role": "tool", "tool_call_id": "call_1", "content": result}]
    return str(ask("my-model", messages)["choices"][0]["message"]["content"])


print(assistant("What is the weather in Paris?"))
