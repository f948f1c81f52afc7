"""A page of Streamlit becomes a function of the fields that a person fills in."""

# ruff: noqa: E501 - files of others, line by line

from __future__ import annotations

import ast
from pathlib import Path

from tests.wire.entries import LONG, wire

HEAD = "import streamlit as st\nfrom openai import OpenAI\nkey = st.text_input('OpenAI API key', type='password')\n"
ASK = (
    "{indent}done = OpenAI(api_key=key).chat.completions.create(model='m', messages=[\n"
    f"{{indent}}    {{{{'role': 'system', 'content': '{LONG}'}}}}, {{{{'role': 'user', 'content': question}}}}])\n"
    "{indent}st.write(done.choices[0].message.content)\n"
)


def call_in(text: str) -> ast.Call:
    """The call of the page in an adapter."""
    calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
    return next(one for one in calls if ast.unparse(one.func) == "PAGE.use")


def test_fields_become_parameters_and_the_button_that_asks_the_model_is_pressed(
    tmp_path: Path,
) -> None:
    page = HEAD + (
        "left, right = st.columns(2)\n"
        "question = left.text_area('What is your\\n\"question\"?')\n"
        "place = st.sidebar.text_input('Place', value='Rome')\n"
        "days = right.slider('Days', 1, 9)\n"
        "if st.button('Clear'):\n    st.session_state.clear()\n"
        "ask = right.button('Ask', type='primary')\n"
        "if ask and question:\n" + ASK.format(indent="    ")
    )
    wired = wire(tmp_path, {"desk/travel page.py": page}, "desk/travel page.py")
    assert wired.config["entry"].startswith("ratchet_agent:")
    text = wired.text("ratchet_agent.py")
    assert 'StreamlitPage(Path(__file__).parent / "desk/travel page.py")' in text
    assert "question: str, place: str | None = None, days: float | None = None" in text
    fields, press = call_in(text).args[0], call_in(text).keywords[0]
    assert ast.unparse(fields) == (
        """{'What is your\\n"question"?': question, 'Place': place, 'Days': days}"""
    )
    assert ast.unparse(press.value) == "'Ask'"


def test_in_a_chat_the_task_is_what_a_person_says(tmp_path: Path) -> None:
    page = HEAD + (
        "tone = st.selectbox('Tone', ['kind', 'dry'])\n"
        "if question := st.chat_input('Ask'):\n    st.chat_message('user').write(question)\n"
        + ASK.format(indent="    ")
    )
    wired = wire(tmp_path, {"app.py": page}, "app.py")
    text = wired.text("ratchet_agent.py")
    assert "(question: str) -> str" in text
    assert ast.unparse(call_in(text)) == "PAGE.use(say=question)"


def test_a_page_that_wants_a_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    page = HEAD + (
        "table = st.file_uploader('A table')\nif table is not None:\n"
        "    question = st.text_input('Question')\n    if st.button('Ask'):\n"
        + ASK.format(indent="        ")
    )
    wired = wire(tmp_path, {"app.py": page}, "app.py")
    assert wired.config == {}
    assert "Write a program" in wired.left or "Write ratchet_agent.py" in wired.left


def test_a_function_behind_the_page_is_called_without_the_page(tmp_path: Path) -> None:
    desk = (
        "from openai import OpenAI\ndef ask(question: str) -> str:\n"
        f"    done = OpenAI().chat.completions.create(model='m', messages=[{{'role': 'system', 'content': '{LONG}'}}, {{'role': 'user', 'content': question}}])\n"
        "    return done.choices[0].message.content\n"
    )
    page = "import streamlit as st\nfrom desk import ask\nif question := st.chat_input('Ask'):\n    st.write(ask(question))\n"
    wired = wire(tmp_path, {"desk.py": desk, "app.py": page}, "app.py")
    assert "from desk import ask" in wired.text("ratchet_agent.py")
    assert "StreamlitPage" not in wired.text("ratchet_agent.py")
