"""Dates and times at which a prompt was recorded are no constant text of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ratchet.bind.recorded_time import free_times
from ratchet.types import PromptTemplate

BEGAN = datetime(2026, 11, 9, 14, 5, tzinfo=UTC).timestamp()
ENDED = BEGAN + 90


def freed(text: str, began: float = BEGAN, ended: float = ENDED) -> str:
    return free_times(PromptTemplate(text), began, ended).text


@pytest.mark.parametrize(
    "written",
    [
        "2026-11-09",
        "2026-11-09T14:05:31Z",
        "2026-11-09 14:05:31.123+00:00",
        "09.11.2026",
        "9/11/2026",
        "11/09/2026",
        "November 9, 2026",
        "9 November 2026",
        "Nov 9, 2026",
        "Monday, November 9, 2026",
        "Monday, 9 November 2026",
        "2026-11-10",  # it is tomorrow already in the east
        "Monday",
    ],
)
def test_the_day_of_the_recording_is_a_slot(written: str) -> None:
    assert freed(f"You book rooms. It is {written}. Be brief.") == (
        "You book rooms. It is {date}. Be brief."
    )


@pytest.mark.parametrize("written", ["14:05", "15:06", "14:06:31", "2:06 pm", "09:05"])
def test_the_time_of_a_short_recording_is_a_slot_in_any_zone(written: str) -> None:
    assert freed(f"You book rooms. It is {written} now.") == "You book rooms. It is {time} now."


@pytest.mark.parametrize(
    "text",
    [
        "Your knowledge ends on 2024-06-30.",
        "The shop is open from 09:00 to 17:30.",
        "The law of 9 November 1918 holds.",
        "The shop is closed on Monday.",
        "Order 20261109x and 1:2:3 are no dates.",
        "Say {{date}} as it is.",
    ],
)
def test_other_dates_and_times_stay(text: str) -> None:
    assert freed(text) == text


def test_slots_that_are_there_keep_their_names() -> None:
    text = "On {date} for {name}: today is 2026-11-09, at 14:05 on 2026-11-09."
    assert freed(text) == "On {date} for {name}: today is {date_2}, at {time} on {date_3}."


def test_times_of_a_recording_that_took_an_hour_stay() -> None:
    assert freed("It is 14:05.", BEGAN, BEGAN + 3600) == "It is 14:05."
