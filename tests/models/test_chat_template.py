"""The template that a model is served with: tool calls as the model writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.gguf_files import ABOUT, gguf

from ratchet.models.chat_template import served_template
from ratchet.models.gguf import GgufHeader, read_header

TAGGED = (
    r"""{{- "# Tools\n<tools>" }}{{- tools | tojson }}{{- "\n</tools>\n\nFor each function call, """
    r"""return a json object with function name and arguments within <tool_call></tool_call> XML """
    r"""tags:\n<tool_call>\n{{\"name\": <function-name>, \"arguments\": <args-json-object>}}\n"""
    r"""</tool_call><|im_end|>\n" }}{{- '\n<tool_call>\n{"name": "' }}{{- call.name }}"""
    r"""{{- '", "arguments": ' }}{{- call.arguments | tojson }}{{- '}\n</tool_call>' }}"""
)
"""What Qwen2.5's template says of tools."""


def header(folder: Path, name: str, template: str) -> GgufHeader:
    path = folder / "model.gguf"
    about = {**ABOUT, "general.name": name, "tokenizer.chat_template": template}
    path.write_bytes(gguf(about))
    return read_header(path)


def test_a_coder_is_asked_for_the_fences_that_it_writes(tmp_path: Path) -> None:
    jinja2 = pytest.importorskip("jinja2")
    served = served_template(header(tmp_path, "Qwen2.5 Coder 1.5B Instruct GGUF", TAGGED))
    call = {"name": "add", "arguments": {"a": 1}}
    assert jinja2.Template(served).render(tools=[], call=call) == (
        "# Tools\n<tools>[]\n</tools>\n\nFor each function call, return a json object with function"
        ' name and arguments in a code block:\n```json\n{"name": <function-name>, "arguments":'
        " <args-json-object>}\n```<|im_end|>\n"
        '\n```json\n{"name": "add", "arguments": {"a": 1}}\n```'
    )


@pytest.mark.parametrize("name", ["Qwen2.5 1.5B Instruct", "Tiny", ""])
def test_any_other_model_keeps_its_own(name: str, tmp_path: Path) -> None:
    assert served_template(header(tmp_path, name, TAGGED)) == ""


@pytest.mark.parametrize("template", ["", "{{ messages[0].content }}"])
def test_a_coder_whose_template_asks_for_no_tags_keeps_its_own(
    template: str, tmp_path: Path
) -> None:
    assert served_template(header(tmp_path, "Qwen2.5 Coder 0.5B", template)) == ""
