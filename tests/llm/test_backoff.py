"""What a server says of when to come back, and what is none of it."""

from __future__ import annotations

import pytest

from ratchet.client.failures import refusal
from ratchet.llm.backoff import requested_delay

NONSENSE = [
    "nan",
    "inf",
    "-inf",
    "1e999",
    "9" * 5000,
    "",
    "soon",
    "Mon, 01 Jan 2024 00:00:00 +" + "9" * 20,
    "Mon, 99 Jan 2024 00:00:00 GMT",
]


@pytest.mark.parametrize("said", NONSENSE)
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_nonsense_asks_for_nothing(name: str, said: str) -> None:
    assert requested_delay({name: said}, 0.0) is None


def test_seconds_and_dates_are_read_and_none_lies_in_the_past() -> None:
    assert requested_delay({"retry-after": "1.5"}, 0.0) == 1.5
    assert requested_delay({"retry-after": "-3"}, 0.0) == 0.0
    assert requested_delay({"retry-after-ms": "250"}, 0.0) == 0.25
    assert requested_delay({"retry-after-ms": "nan", "retry-after": "2"}, 0.0) == 2.0
    assert requested_delay({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0) == 40.0
    assert requested_delay({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 90.0) == 0.0


@pytest.mark.parametrize("said", [*NONSENSE, "-1", "1.5", "1e9", "99999999"])
def test_the_client_of_a_server_takes_whole_seconds_alone(said: str) -> None:
    headers = {"retry-after": said}
    told = refusal(503, headers, b"", place="", request="", key="")
    assert told.retry_after_s is None
