"""The client against a real server: every repository, both kinds of client, and reconnections."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

import ratchet
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import (
    AgentSettings,
    Candidate,
    Code,
    ConfigError,
    Cycle,
    CycleTransition,
    Dataset,
    Experiment,
    Feedback,
    InputError,
    Int,
    NotFound,
    OperatorCommand,
    Outcome,
    Params,
    PromptTemplate,
    Rollout,
    Score,
    Span,
    SpanRecord,
    Task,
    TrafficSplit,
    Transition,
    pack_floats,
    pack_ids,
)
from ratchet.types.trace import Trace, TraceFilter
from tests.client.conftest import Call
from tests.serving import RunningServer

KNOBS = Params({"k": Int(5, 1, 20)}, {"k": 9})
PROMPT = PromptTemplate("Answer {question}")
CANDIDATE = Candidate.of({"knobs": KNOBS, "system": PROMPT}, algorithm="tune", reason="Better.")


def rollout(id: str, **fields: object) -> Rollout:
    given = {"queue": "q", "candidate_id": "", "task_id": "t", "input": {"x": [1, "é"]}, **fields}
    return Rollout(id=id, **given)  # type: ignore[arg-type]


def outcome(id: str, fence: int = 1, **fields: object) -> Outcome:
    now = time.time()
    given = {"status": "succeeded", "started_at": now, "ended_at": now, "duration_s": 0.1, **fields}
    return Outcome(rollout_id=id, fence=fence, **given)  # type: ignore[arg-type]


def span(number: int, **fields: object) -> Span:
    given = {"trace_id": "a" * 32, "span_id": f"{number:016x}", "name": "step", **fields}
    return Span(start_ns=number, end_ns=number + 1, **given)  # type: ignore[arg-type]


def test_a_rollout_goes_through_the_queue(server: RunningServer, call: Call) -> None:
    url = server.url
    wanted = [rollout("r1", expected=3, seed=5, purpose="eval"), rollout("r2"), rollout("r3")]
    assert call(url, "rollouts.create", wanted) == 3
    assert call(url, "rollouts.create", wanted) == 0, "the same again changes nothing"
    first, _ = call(url, "rollouts.claim", "q", "me", 2, 30.0)
    assert (first.rollout.id, first.fence, first.rollout.seed) == ("r1", 1, 5)
    assert first.token.startswith("ra_")
    pairs = [("r1", 1), ("r2", 1), ("r3", 1)]
    assert call(url, "rollouts.heartbeat", pairs, 30.0) == {("r1", 1), ("r2", 1)}
    assert call(url, "rollouts.release", [("r2", 1)]) == {("r2", 1)}
    given = outcome("r1", output="done", spans=(span(1),), scores=(score(1.0),))
    late = outcome("r2")
    answers = call(url, "rollouts.finish", [given, late])
    assert answers == {("r1", 1): "succeeded", ("r2", 1): None}
    again = call(url, "rollouts.finish", [given])
    assert again == {("r1", 1): "succeeded"}, "who did not hear the answer may report again"
    assert call(url, "rollouts.cancel", ["r3", "r1"]) == 1
    assert call(url, "rollouts.counts", "q") == {"queued": 1, "succeeded": 1, "cancelled": 1}
    assert call(url, "rollouts.counts", purpose="nothing") == {}
    found = call(url, "rollouts.get", ["r1", "unknown"])
    assert found.keys() == {"r1"}
    assert (found["r1"].output, found["r1"].expected) == ("done", 3)
    assert [attempt.status for attempt in call(url, "rollouts.attempts", "r2")] == ["released"]
    assert [each.name for each in call(url, "spans.of", "r1")] == ["step"]
    assert call(url, "spans.of", "r1", 7) == []
    assert [each.value for each in call(url, "scores.of", ["r1"])["r1"]] == [1.0]


def test_transitions_and_the_rewards_of_calls_are_read(server: RunningServer, call: Call) -> None:
    call(server.url, "rollouts.create", [rollout("r1"), rollout("r2")])
    call(server.url, "rollouts.claim", "q", "me", 2)
    kept = Transition(
        id="a" * 16,
        rollout_id="r1",
        fence=1,
        prompt_ids=pack_ids([1, 200_000]),
        response_ids=pack_ids([3]),
        logprobs=pack_floats([-0.5]),
        started_ns=1,
        ended_ns=2,
    )
    dropped = Transition(id="b", rollout_id="r2", fence=1, started_ns=1, ended_ns=2, drop="api")
    server.app.services.store.transitions.add([kept, dropped])
    span = Span(
        trace_id="c" * 32,
        span_id="d" * 16,
        name="reward",
        start_ns=5,
        end_ns=5,
        attributes={"ratchet.reward.value": 0.5},
    )
    server.app.services.store.spans.add("r1", 1, [span])
    ids = ["r1", "r2", "none"]
    assert call(server.url, "transitions.of", ids) == {"r1": [kept], "r2": [], "none": []}
    counts = call(server.url, "transitions.kept", ids)
    assert (counts["r1"].prompt_tokens, counts["r2"].dropped) == (2, {"api": 1})
    rewards = call(server.url, "transitions.call_rewards", ids)
    assert rewards == {"r1": {kept.id: 0.5}, "r2": {}, "none": {}}


def score(value: float, evaluator: str = "match") -> Score:
    return Score(evaluator=evaluator, version="1", value=value)


def test_a_claim_waits_for_work(server: RunningServer, call: Call) -> None:
    def once_somebody_waits() -> None:
        while not server.app.services.dispatcher._waiting:
            time.sleep(0.005)
        with ratchet.Client(server.url) as client:
            client.rollouts.create([rollout("r1")])

    creating = threading.Thread(target=once_somebody_waits, daemon=True)
    creating.start()
    (claim,) = call(server.url, "rollouts.claim", "q", "me", 5, wait_s=20.0)
    creating.join()
    assert claim.rollout.id == "r1"
    assert call(server.url, "rollouts.claim", "q", "me", 5, wait_s=0.1) == []


def test_a_claim_that_is_given_up_takes_nothing(server: RunningServer) -> None:
    async def main() -> None:
        async with ratchet.AsyncClient(server.url) as client:
            waiting = server.app.services.dispatcher._waiting
            claiming = asyncio.create_task(client.rollouts.claim("q", "me", 5, wait_s=30.0))
            async with asyncio.timeout(20):
                while not waiting:
                    await asyncio.sleep(0.01)
                claiming.cancel()
                await asyncio.wait({claiming})
                while waiting:
                    await asyncio.sleep(0.01)
            await client.rollouts.create([rollout("r1")])
            assert await client.rollouts.counts() == {"queued": 1}

    asyncio.run(main())


def test_candidates_are_fetched_with_their_resources(server: RunningServer, call: Call) -> None:
    assert call(server.url, "candidates.put", CANDIDATE) == CANDIDATE.id
    assert call(server.url, "candidates.get", CANDIDATE.id) == CANDIDATE
    with pytest.raises(InputError, match="no candidate 'unknown'"):
        call(server.url, "candidates.get", "unknown")
    version = call(server.url, "resources.put", "system", PROMPT)
    assert call(server.url, "resources.get", version) == PROMPT
    assert [found for found, _ in call(server.url, "resources.versions", "system")] == [version]


def test_datasets_are_found_by_name_and_version(server: RunningServer, call: Call) -> None:
    first = Dataset("qa", (Task("a", 1),), {"a": "train"})
    second = Dataset("qa", (Task("a", 2),), {"a": "test"}, parent=first.version, reason="Other.")
    for dataset in (first, second, Dataset("rooms", (), {})):
        call(server.url, "datasets.put", dataset)
    assert [one.name for one in call(server.url, "datasets.list")] == ["qa", "rooms"]
    history = call(server.url, "datasets.history", "qa")
    assert [one.version for one in history] == [second.version, first.version]
    assert (history[0].parent, history[0].splits, history[0].versions) == (
        first.version,
        {"test": 1},
        2,
    )
    assert call(server.url, "datasets.history", "nothing") == []
    assert call(server.url, "datasets.named", "qa") == second
    assert call(server.url, "datasets.named", f"qa@{first.version[:12]}") == first
    for unknown in ("nothing", "qa@zzz"):
        with pytest.raises(NotFound):
            call(server.url, "datasets.named", unknown)


def test_spans_scores_and_feedback_are_stored(server: RunningServer, call: Call) -> None:
    call(server.url, "rollouts.create", [rollout("r1")])
    call(server.url, "rollouts.claim", "q", "me")
    records = [
        SpanRecord(span=span(2, trace_id="b" * 32), agent="live"),
    ]
    assert call(server.url, "spans.put", records) == 1
    with pytest.raises(InputError, match="belongs to the rollout 'r1', so it is not live traffic"):
        call(server.url, "spans.put", [SpanRecord(span=span(1), rollout_id="r1", fence=1)])
    assert call(server.url, "spans.of", "r1", 1) == []
    assert [each.start_ns for each in call(server.url, "spans.of_trace", "b" * 32)] == [2]
    page, cursor = call(server.url, "spans.live", "live")
    assert ([each.start_ns for each in page], cursor) == ([2], None)
    call(server.url, "scores.add", [("r1", score(0.5)), ("r1", score(0.7, "judge"))])
    call(server.url, "scores.add", [("r1", score(0.6))])
    found = call(server.url, "scores.of", ["r1"])["r1"]
    assert [(each.evaluator, each.value) for each in found] == [("match", 0.6), ("judge", 0.7)]
    thumbs = Feedback(id="f1", kind="thumbs", value=1.0, rollout_id="r1")
    assert call(server.url, "feedback.add", [thumbs]) == 1
    assert call(server.url, "feedback.add", [thumbs]) == 0
    (kept,), _ = call(server.url, "feedback.list", rollout_id="r1")
    assert (kept.id, kept.kind) == ("f1", "thumbs")


def test_agents_are_configured_and_activated(server: RunningServer, call: Call) -> None:
    call(server.url, "candidates.put", CANDIDATE)
    assert call(server.url, "agents.active", "bot").candidate_id == ""
    call(server.url, "agents.put", AgentSettings(name="bot", substitute=True))
    assert call(server.url, "agents.get", "bot").substitute
    assert call(server.url, "agents.activate", "bot", CANDIDATE.id, "It won.").reason == "It won."
    active = call(server.url, "agents.active", "bot")
    assert (active.candidate_id, active.resources) == (CANDIDATE.id, CANDIDATE.resources)
    assert [each.candidate_id for each in call(server.url, "agents.history", "bot")] == [
        CANDIDATE.id
    ]
    assert [each.name for each in call(server.url, "agents.list")] == ["bot"]
    with pytest.raises(InputError, match="no candidate 'unknown'"):
        call(server.url, "agents.activate", "bot", "unknown")


def test_an_active_candidate_is_sent_again_only_when_it_has_changed(server: RunningServer) -> None:
    with ratchet.Client(server.url) as client:
        client.candidates.put(CANDIDATE)
        client.agents.activate("bot", CANDIDATE.id)
        first = client.agents.active("bot")
        assert client.agents.active("bot") is first, "a 304 holds nothing to make another of"
        client.agents.activate("bot", "")
        assert client.agents.active("bot").candidate_id == ""


def test_traffic_is_split_and_read_when_it_has_changed(server: RunningServer, call: Call) -> None:
    call(server.url, "candidates.put", CANDIDATE)
    call(server.url, "agents.activate", "bot", CANDIDATE.id)
    split = TrafficSplit(
        agent="bot", experiment_id="e", candidate_id=CANDIDATE.id, enrolled=0.5, reason="Try it."
    )
    call(server.url, "traffic.put", split)
    found = call(server.url, "traffic.versions", "bot")
    assert (found.release_id, found.release) == (CANDIDATE.id, CANDIDATE.resources)
    assert (found.split.enrolled, found.candidate) == (0.5, CANDIDATE.resources)
    assert call(server.url, "traffic.versions", "bot", found.tag) is None
    call(server.url, "traffic.put", TrafficSplit(agent="bot", experiment_id=""))
    assert call(server.url, "traffic.versions", "bot", found.tag).split is None
    assert [one.reason for one in call(server.url, "traffic.history", "bot")] == ["", "Try it."]
    unknown = msgspec.structs.replace(split, candidate_id="unknown")
    with pytest.raises(InputError, match="no candidate 'unknown'"):
        call(server.url, "traffic.put", unknown)


def test_cycles_are_read_and_people_tell_the_autopilot(server: RunningServer, call: Call) -> None:
    cycle = Cycle(
        id="c1",
        agent="bot",
        state="capture",
        trigger="22 of 100 traces are bad.",
        started_at=1.0,
        entered_at=1.0,
        updated_at=1.0,
        progress={"test": {"units": ["a user"]}},
    )
    move = CycleTransition(
        cycle_id="c1",
        number=1,
        source="idle",
        target="capture",
        rule="A rule.",
        inputs="digest",
        actor="autopilot",
        at=1.0,
    )
    with Store.open(server.store_url) as store:
        store.cycles.put(cycle, move)
    shown = msgspec.structs.replace(cycle, progress={})  # names of users stay where they are
    assert call(server.url, "cycles.list", "bot") == [shown]
    assert call(server.url, "cycles.list", "other") == []
    assert call(server.url, "cycles.get", "c1") == shown
    assert call(server.url, "cycles.get", "c2") is None
    assert call(server.url, "cycles.transitions", "c1") == [move]
    pause = OperatorCommand(verb="pause", agent="bot", by="ann", reason="Release week.", at=0.0)
    call(server.url, "operator_commands.add", pause)
    stop = OperatorCommand(verb="stop", agent="bot", cycle_id="c1", by="ann", at=0.0)
    call(server.url, "operator_commands.add", stop)
    with Store.open(server.store_url) as store:
        found = store.operator_commands.pause("bot")
        assert found is not None
        assert (found.by, found.reason, found.at > 0) == ("ann", "Release week.", True)
        assert [one.verb for one in store.operator_commands.about("c1")] == ["stop"]
    elsewhere = msgspec.structs.replace(stop, cycle_id="c2")
    with pytest.raises(InputError, match="no cycle 'c2' to stop"):
        call(server.url, "operator_commands.add", elsewhere)


def test_code_that_was_not_merged_is_not_activated(server: RunningServer, call: Call) -> None:
    source = Candidate.of({"rank": Code("def rank(a):\n    return a\n", "rank")})
    changed = source.derive({"rank": Code("def rank(a):\n    return []\n", "rank")}, algorithm="e")
    for candidate in (source, changed):
        call(server.url, "candidates.put", candidate)
    call(server.url, "agents.activate", "bot", source.id)
    with pytest.raises(InputError, match="changes the code of 'rank'"):
        call(server.url, "agents.activate", "bot", changed.id)
    split = TrafficSplit(agent="bot", experiment_id="e", candidate_id=changed.id, enrolled=0.1)
    with pytest.raises(InputError, match="changes the code of 'rank'"):
        call(server.url, "traffic.put", split)


def test_experiments_and_releases_are_read(server: RunningServer, call: Call) -> None:
    experiment = Experiment(
        id="e1",
        run_id="r",
        baseline_id="a",
        candidate_id="b",
        dataset_version="d",
        stream="s",
        history=(True, False),
        alpha=0.05,
        created_at=1.0,
    )
    with Store.open(server.store_url) as store:
        store.experiments.put(experiment)
    assert call(server.url, "experiments.get", "e1") == experiment
    assert call(server.url, "experiments.get", "unknown") is None
    assert call(server.url, "experiments.list") == [experiment]
    assert call(server.url, "releases.get", "unknown") is None
    assert call(server.url, "releases.list") == []


def test_the_start_of_a_trace_s_id_will_do_unless_several_begin_so(
    server: RunningServer, call: Call
) -> None:
    ids = ("abcd" + "1" * 28, "abcd" + "2" * 28)
    with Store.open(server.store_url) as store:
        store.spans.put([SpanRecord(span=span(1, trace_id=id), agent="bot") for id in ids])
    found = call(server.url, "traces.get", "abcd1")
    assert [each.trace_id for each in found.spans] == [ids[0]]
    assert call(server.url, "traces.get", "beef") is None
    with pytest.raises(InputError, match="prefix of several traces"):
        call(server.url, "traces.get", "abcd")
    assert call(server.url, "conversations.log", "unknown") is None


def test_threads_and_forks_share_a_client(server: RunningServer) -> None:
    with ratchet.Client(server.url) as client:
        with ThreadPoolExecutor(8) as pool:
            ids = [f"r{n}" for n in range(40)]
            assert sum(pool.map(lambda id: client.rollouts.create([rollout(id)]), ids)) == 40
        child = os.fork()
        if child == 0:
            try:
                code = 0 if client.rollouts.counts() == {"queued": 40} else 1
            except BaseException:
                code = 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.rollouts.counts() == {"queued": 40}


def test_an_async_client_may_be_used_in_one_loop_after_another(server: RunningServer) -> None:
    client = ratchet.AsyncClient(server.url)
    assert asyncio.run(client.rollouts.counts()) == {}
    assert asyncio.run(client.rollouts.counts()) == {}


def test_a_call_outlasts_a_server_that_is_started_again(
    serving: Callable[..., RunningServer], sqlite_url: str, call: Call
) -> None:
    first = serving(sqlite_url)
    url, port = first.url, int(first.url.rpartition(":")[2])
    first.stop()
    timer = threading.Timer(0.3, lambda: serving(sqlite_url, ServeSettings(port=port)))
    timer.start()
    assert call(url, "rollouts.create", [rollout("r1")]) == 1
    timer.join()


def test_a_key_is_needed_where_everybody_can_come(
    serving: Callable[..., RunningServer], sqlite_url: str, call: Call
) -> None:
    with Store.open(sqlite_url) as store:
        _, reader = store.keys.create("reader", ("read",), time.time())
    server = serving(sqlite_url, ServeSettings(host="0.0.0.0", port=0))
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    with pytest.raises(ConfigError, match="requires a key"):
        call(url, "rollouts.counts")
    assert call(url, "rollouts.counts", key=reader) == {}
    with pytest.raises(ConfigError, match=r"may not do this .* scope develop") as caught:
        call(url, "rollouts.create", [rollout("r1")], key=reader)
    assert reader not in str(caught.value)


def test_events_are_followed_through_a_restart(
    serving: Callable[..., RunningServer], sqlite_url: str
) -> None:
    first = serving(sqlite_url)
    port = int(first.url.rpartition(":")[2])
    with ratchet.Client(first.url) as client:
        client.rollouts.create([rollout("r1")])
        events = client.events(after="0")
        event = next(events)
        assert (event.kind, event.body["created"]) == ("rollouts.created", 1)
        first.stop()
        serving(sqlite_url, ServeSettings(port=port))
        client.rollouts.create([rollout("r2")])
        following = next(events)
        assert following.kind == "rollouts.created"
        assert int(following.id) > int(event.id)
        events.close()


def test_recordings_are_read_page_by_page(server: RunningServer, call: Call) -> None:
    live = [
        SpanRecord(
            span=span(n, trace_id=f"{n:032x}", attributes={"ratchet.input": f'"question {n}"'}),
            agent="support" if n % 2 else "judge",
        )
        for n in range(1, 6)
    ]
    call(server.url, "spans.put", live)
    call(
        server.url, "feedback.add", [Feedback(id="f", kind="rating", value=1, trace_id=f"{5:032x}")]
    )

    def wanted(trace: Trace) -> bool:
        return trace.agent == "support"

    page, examined, cursor = call(server.url, "recordings.page", wanted=wanted, limit=3)
    assert examined == 3
    assert [each.root.attributes["ratchet.input"] for each in page] == [
        '"question 5"',
        '"question 3"',
    ]
    assert [item.id for item in page[0].feedback] == ["f"]
    page, examined, cursor = call(
        server.url, "recordings.page", wanted=wanted, limit=3, cursor=cursor
    )
    assert (len(page), examined, cursor) == (1, 2, None)
    only = call(server.url, "recordings.page", TraceFilter(agent="judge"))
    assert len(only[0]) == 2
    used = call(server.url, "recordings.page", TraceFilter(own_calls=False))
    assert {each.trace.agent for each in used[0]} == {"support"}
    assert len(call(server.url, "traces.list", TraceFilter(own_calls=False))[0]) == 3
