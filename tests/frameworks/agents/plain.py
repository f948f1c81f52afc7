"""Plain Python: no library, our decorators."""

import ratchet

ratchet.init()


@ratchet.tool
def get_weather(city: str) -> str:
    return "18 C"


def ask(messages: list[dict[str, str]]) -> dict[str, object]:
    with ratchet.trace("chat", **{"gen_ai.operation.name": "chat"}) as step:
        step.set("gen_ai.request.model", "my-model")
        step.set("gen_ai.input.messages", messages)
        if messages[-1]["role"] == "tool":
            answer = {"role": "assistant", "content": f"The weather in Paris: {messages[-1]}"}
            tokens = (60, 11)
        else:
            call = {"id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}
            answer = {"role": "assistant", "tool_calls": [call]}
            tokens = (42, 7)
        step.set("gen_ai.output.messages", [answer])
        step.set("gen_ai.usage.input_tokens", tokens[0])
        step.set("gen_ai.usage.output_tokens", tokens[1])
    return answer


@ratchet.agent
def assistant(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    (call,) = ask(messages)["tool_calls"]
    result = get_weather(**call["arguments"])
    messages.append({"role": "tool", "tool_call_id": "call_1", "content": result})
    return str(ask(messages)["content"])


print(assistant("What is the weather in Paris?"))
