"""Limits: nobody gets more than is allowed, and whoever waits as told is let in."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.server.http_problems import HttpProblem
from ratchet.server.limits import RateLimiter, ServerLimits, TokenBuckets, network_of
from tests.clocks import Clock

GAPS = st.lists(
    st.one_of(st.just(0.0), st.floats(0.0, 0.2), st.floats(0.0, 20.0)), min_size=1, max_size=200
)
RATES = st.one_of(st.floats(0.1, 5_000.0), st.integers(1, 100).map(float))


@given(GAPS, RATES, st.integers(1, 30), st.floats(0.0, 1e5))
def test_it_behaves_as_a_bucket_that_is_counted_token_by_token(
    gaps: list[float], rate: float, burst: int, start: float
) -> None:
    time = Clock()
    buckets = TokenBuckets(rate, burst, time)
    tokens, counted_at = float(burst), start
    for time.now in accumulate(gaps, initial=start):
        tokens = min(burst, tokens + (time.now - counted_at) * rate)
        counted_at = time.now
        wait = buckets.take("a")
        if wait == 0.0:
            assert tokens > 1.0 - 1e-3
            tokens -= 1.0
        else:
            assert tokens < 1.0 + 1e-3
            assert wait == pytest.approx((1.0 - tokens) / rate, abs=1e-3)


def test_names_do_not_share_and_a_token_may_be_given_back() -> None:
    buckets = TokenBuckets(1.0, 2, Clock())
    assert [buckets.take("a") for _ in range(3)] == [0.0, 0.0, 1.0]
    assert buckets.take("b") == 0.0
    buckets.give_back("a")
    buckets.give_back("never seen")
    assert buckets.take("a") == 0.0
    assert buckets.take("a") > 0.0


def test_names_that_are_idle_take_no_memory() -> None:
    time = Clock()
    buckets = TokenBuckets(10.0, 5, time)
    for number in range(20_000):
        buckets.take(f"caller {number}")
        time.now += 0.01
    # Each is busy for a tenth of a second, in which ten callers come; sweeps are spread out.
    assert len(buckets) <= 1024 + 1


def test_names_that_are_all_busy_are_bounded_and_the_newest_stays() -> None:
    buckets = TokenBuckets(0.001, 1, Clock(), most=3_000)
    for number in range(10_000):
        assert buckets.take(f"caller {number}") == 0.0
    assert len(buckets) <= 3_000
    assert buckets.take("caller 9999") > 0.0


def test_too_many_requests_are_told_when_to_come_again() -> None:
    time = Clock()
    limiter = RateLimiter(ServerLimits(requests_per_s=0.4, burst=1), time)
    limiter.request("a")
    with pytest.raises(HttpProblem, match=r"more than 0\.4 requests a second") as raised:
        limiter.request("a")
    assert raised.value.status == 429
    assert raised.value.headers == {"retry-after": "3"}
    time.now = 2.5
    limiter.request("a")


def test_a_stream_counts_until_it_ends_however_it_ends() -> None:
    limiter = RateLimiter(ServerLimits(streams=2))
    with limiter.stream("a"):
        with pytest.raises(KeyError), limiter.stream("a"):
            raise KeyError
        with limiter.stream("a"), limiter.stream("b"):
            assert limiter.open_streams == 3
            with pytest.raises(HttpProblem) as raised, limiter.stream("a"):
                pytest.fail("a third stream was let in")
            assert raised.value.status == 429
            assert "retry-after" in raised.value.headers
        assert limiter.open_streams == 1
    assert limiter.open_streams == 0
    assert limiter._streams == {}


def test_an_ipv6_network_is_one_caller() -> None:
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::9") != ""
    assert network_of("2001:db8:1:3::9") != network_of("2001:db8:1:2::9")
    assert network_of("::ffff:10.1.2.3") == network_of("10.1.2.3") == "10.1.2.3"
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("::1") == "::"
    for odd in ("", "a:b", "unix:"):
        assert network_of(odd) == odd
