"""A page of Streamlit is used as a person does; real Streamlit, where it is installed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ratchet.bind import registry
from ratchet.worker.streamlit_page import PageFailed, StreamlitPage

FORM = """
import streamlit as st
st.markdown("Plans a trip.")
key = st.sidebar.text_input("Enter your OpenAI API key", type="password")
if not key:
    st.warning("A key is needed.")
else:
    place = st.text_input("Where?")
    if place:
        days = st.number_input("How many days?", 1, 30, 7)
        if st.button("Plan"):
            if place == "nowhere":
                raise ValueError("There is no such place.")
            if place == "closed":
                st.error("It is closed.")
            else:
                st.write(f"{days} days in {place}, with {key}")
                st.json({"place": place})
"""
CHAT = """
import streamlit as st
said = st.session_state.setdefault("said", [])
for role, text in said:
    st.chat_message(role).markdown(text)
if question := st.chat_input("Ask"):
    said.append(("user", question))
    said.append(("assistant", f"{question} is turn {len(said)}"))
    st.rerun()
"""


@pytest.fixture(autouse=True)
def clean_registry() -> None:
    registry.forget()


@pytest.fixture
def streamlit(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("streamlit")
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    monkeypatch.setenv("OTHER_API_KEY", "k-2")


def page(tmp_path: Path, text: str) -> StreamlitPage:
    (tmp_path / "a page.py").write_text(text, encoding="utf-8")
    return StreamlitPage(tmp_path / "a page.py")


def test_prompts_with_a_literal_text_are_declared_before_the_page_runs(tmp_path: Path) -> None:
    text = (
        "import ratchet\nname = 'x'\n"
        'RULES = ratchet.prompt("rules", "Be brief, {name}. "\n    "Be kind.")\n'
        'ratchet.prompt(name="raw", default="{", engine="plain")\n'
        'ratchet.prompt("computed", "a" + name)\n'
    )
    made = page(tmp_path, text)
    found = registry.declarations()
    assert {name: one.resource.text for name, one in found.items()} == {  # type: ignore[union-attr]
        "rules": "Be brief, {name}. Be kind.",
        "raw": "{",
    }
    assert (found["rules"].file, found["rules"].line) == (str(made.path), 3)
    exec(compile(text, str(made.path), "exec"), {})  # the page runs, and declares them again
    assert sorted(registry.declarations()) == ["computed", "raw", "rules"]


@pytest.mark.usefixtures("streamlit")
def test_fields_are_filled_in_as_they_appear_and_what_is_new_is_the_answer(tmp_path: Path) -> None:
    form = page(tmp_path, FORM)
    given = {"How many days?": 3, "Where?": "Rome"}
    assert form.use(given, press="Plan") == '3 days in Rome, with k-1\n\n{"place": "Rome"}'
    left = {"How many days?": None, "Where?": "Oslo"}
    assert form.use(left, press="Plan").startswith("7 days in Oslo")


@pytest.mark.usefixtures("streamlit")
def test_each_use_of_a_chat_begins_anew(tmp_path: Path) -> None:
    chat = page(tmp_path, CHAT)
    assert chat.use(say="Rome") == "Rome is turn 1"
    assert chat.use(say="Oslo") == "Oslo is turn 1"


@pytest.mark.usefixtures("streamlit")
@pytest.mark.parametrize(
    ("fields", "press", "why"),
    [
        ({"Where?": "nowhere"}, "Plan", "The page failed: There is no such place."),
        ({"Where?": "closed"}, "Plan", "shows no answer. It says: It is closed."),
        ({"Who?": "Emma"}, "Plan", "The page has no field 'Who?'"),
        ({"Where?": "Rome"}, "Go", "The page has no button 'Go'"),
    ],
)
def test_what_the_page_lacks_or_says_instead_is_the_error(
    tmp_path: Path, fields: dict[str, str], press: str, why: str
) -> None:
    with pytest.raises(PageFailed) as failed:
        page(tmp_path, FORM).use(fields, press=press)
    assert why in str(failed.value)


@pytest.mark.usefixtures("streamlit")
def test_pages_that_are_used_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    chat = page(tmp_path, CHAT)
    answers: dict[str, str] = {}

    def ask(place: str) -> None:
        answers[place] = chat.use(say=place)

    threads = [threading.Thread(target=ask, args=(place,)) for place in ("Rome", "Oslo", "Bern")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert answers == {place: f"{place} is turn 1" for place in ("Rome", "Oslo", "Bern")}
