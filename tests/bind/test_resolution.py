"""What a name means: the source outside rollouts, or the release; the candidate inside."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import ModuleType

import msgspec
import pytest

import ratchet
from ratchet.bind import Binding, bind_process, bound, current, current_seed, declarations
from ratchet.types import InputError, Int, Model, Params, PromptTemplate


def candidate(k: int = 9, text: str = "candidate {x}", seed: int = 0) -> Binding:
    return Binding(
        resources={
            "knobs": Params({"k": Int(5, 1, 1000)}, {"k": k}),
            "system": PromptTemplate(text),
            "llm": Model("large", "http://there", {"temperature": 0.1}),
        },
        candidate_id=f"c{k}",
        seed=seed,
    )


@pytest.fixture
def knobs() -> ratchet.bind.Knobs:
    return ratchet.params("knobs", k=ratchet.Int(5, 1, 1000))


def test_outside_of_rollouts_the_source_speaks(knobs: ratchet.bind.Knobs) -> None:
    system = ratchet.prompt("system", "source {x}")
    llm = ratchet.model("llm", "small", temperature=0.7)
    assert (knobs.k, system.format(x=1), str(llm)) == (5, "source 1", "small")
    assert (llm.base_url, llm.sampling, current(), current_seed(3)) == (
        None,
        {"temperature": 0.7},
        None,
        3,
    )


def test_a_candidate_holds_even_after_an_exception(knobs: ratchet.bind.Knobs) -> None:
    with pytest.raises(RuntimeError), bound(candidate()):
        raise RuntimeError
    assert knobs.k == 5


def test_bindings_nest(knobs: ratchet.bind.Knobs) -> None:
    with bound(candidate(7)):
        with bound(candidate(8)):
            assert knobs.k == 8
        assert knobs.k == 7


def test_the_release_holds_outside_and_the_candidate_inside(
    knobs: ratchet.bind.Knobs, release: Callable[..., None]
) -> None:
    release(knobs=Params({"k": Int(5, 1, 1000)}, {"k": 6}))
    assert knobs.k == 6
    with bound(candidate(9)):
        assert knobs.k == 9
    with bound(Binding(resources={})):
        assert knobs.k == 5, "a candidate without the resource means the source, not the release"
    ratchet.activate(None)
    assert knobs.k == 5


def test_a_release_of_another_kind_or_without_a_new_knob_falls_back_to_the_source(
    release: Callable[..., None],
) -> None:
    knobs = ratchet.params("knobs", k=5, added=ratchet.Bool(True))
    release(knobs=PromptTemplate("not params"))
    assert knobs.k == 5
    release(knobs=Params({"k": Int(5, 1, 20), "gone": Int(1, 1, 2)}, {"k": 6}))
    assert dict(knobs) == {"k": 6, "added": True}
    assert not hasattr(knobs, "gone")


@pytest.mark.parametrize(
    ("released", "engine"),
    [("{missing}", "f-string"), ("{{ x.nothing.at_all }}", "jinja2"), ("{{ x / 0 }}", "jinja2")],
)
def test_a_released_template_that_does_not_fit_falls_back_to_the_source_with_a_warning(
    release: Callable[..., None], released: str, engine: str
) -> None:
    system = ratchet.prompt("system", "source {x}")
    release(system=PromptTemplate(released, engine))  # type: ignore[arg-type]
    with pytest.warns(RuntimeWarning, match="'system' does not fit"):
        assert system.format(x=1) == "source 1"


def test_a_candidates_template_that_does_not_fit_fails_its_rollout() -> None:
    system = ratchet.prompt("system", "source {x}")
    with bound(candidate(text="{missing}")), pytest.raises(InputError, match="missing"):
        system.format(x=1)


def test_the_sources_own_mistake_is_not_hidden_by_a_release(release: Callable[..., None]) -> None:
    system = ratchet.prompt("system", "source {x}")
    with pytest.raises(InputError, match="x"):
        system.format()
    release(system=PromptTemplate("released {x}"))
    with pytest.warns(RuntimeWarning), pytest.raises(InputError, match="x"):
        system.format()


def test_concurrent_and_nested_asyncio_tasks_never_mix_candidates(
    knobs: ratchet.bind.Knobs,
) -> None:
    seen: dict[int, set[int]] = {}

    async def leaf(number: int) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
            seen.setdefault(number, set()).add(knobs.k)

    async def rollout(number: int) -> None:
        with bound(candidate(number)):
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(leaf(number))
                group.create_task(asyncio.to_thread(lambda: seen[number].add(knobs.k)))
                await asyncio.sleep(0)
                seen[number].add(knobs.k)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(100, 140):
                seen[number] = set()
                group.create_task(rollout(number))
        assert knobs.k == 5

    asyncio.run(main())
    assert seen == {number: {number} for number in range(100, 140)}


@pytest.mark.usefixtures("carried")
def test_threads_and_pools_started_inside_a_rollout_see_its_candidate(
    knobs: ratchet.bind.Knobs,
) -> None:
    seen: SimpleQueue[tuple[int, int]] = SimpleQueue()

    class Subclass(threading.Thread):
        def run(self) -> None:
            seen.put((1, knobs.k))

    with ThreadPoolExecutor(2) as shared:
        for number in (20, 30):
            with bound(candidate(number)):
                threads = [
                    threading.Thread(target=lambda: seen.put((2, knobs.k))),
                    Subclass(),
                    threading.Timer(0, lambda: seen.put((3, knobs.k))),
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert {seen.get() for _ in threads} == {(1, number), (2, number), (3, number)}
                assert set(shared.map(lambda _: knobs.k, range(8))) == {number}
        assert shared.submit(lambda: knobs.k).result() == 5


@pytest.mark.usefixtures("carried")
def test_a_thread_left_behind_keeps_its_candidate_where_rollouts_run_beside_one_another(
    knobs: ratchet.bind.Knobs, release: Callable[..., None]
) -> None:
    go, answers = threading.Event(), SimpleQueue[int]()
    release(knobs=Params({"k": Int(5, 1, 1000)}, {"k": 6}))
    with bound(candidate(20)):
        left = threading.Thread(target=lambda: (go.wait(60), answers.put(knobs.k)))
        left.start()
    go.set()
    assert answers.get(timeout=60) == 20
    left.join(60)


def test_threads_that_carry_no_context_see_the_rollout_of_their_process(
    knobs: ratchet.bind.Knobs,
) -> None:
    bind_process(candidate(42))
    assert contextvars.Context().run(lambda: knobs.k) == 42


def test_an_unknown_knob_is_named_with_those_there_are(knobs: ratchet.bind.Knobs) -> None:
    with pytest.raises(AttributeError, match=r"'knobs' has no knob 'kk'; it has \['k'\]"):
        _ = knobs.kk
    with pytest.raises(KeyError):
        _ = knobs["kk"]
    assert getattr(knobs, "kk", 1) == 1


def test_knobs_cannot_be_assigned_to(knobs: ratchet.bind.Knobs) -> None:
    with pytest.raises(AttributeError, match="is read-only"):
        knobs.k = 6
    with pytest.raises(TypeError):
        knobs["k"] = 6  # type: ignore[index]
    values = dict(knobs)
    values["k"] = 7
    assert knobs.k == 5


def test_what_a_model_hands_out_is_a_copy() -> None:
    llm = ratchet.model("llm", "small", temperature=0.7)
    llm.sampling["temperature"] = 2
    assert llm.sampling == {"temperature": 0.7}


def test_handles_survive_copies_and_trips_to_other_processes(knobs: ratchet.bind.Knobs) -> None:
    system = ratchet.prompt("system", "source {x}")
    for again in (copy.copy(knobs), copy.deepcopy(knobs), pickle.loads(pickle.dumps(knobs))):
        assert dict(again) == {"k": 5}
        with bound(candidate(9)):
            assert again.k == 9
    assert pickle.loads(pickle.dumps(system)).format(x=1) == "source 1"


@pytest.mark.parametrize("name", ["keys", "items", "values", "get", "_values"])
def test_a_knob_may_not_hide_behind_a_method_of_mappings(name: str) -> None:
    with pytest.raises(InputError, match=f"cannot be named '{name}'"):
        ratchet.params("knobs", **{name: 3})


def test_one_name_for_two_resources_is_refused_wherever_they_stand(
    load: Callable[..., ModuleType],
) -> None:
    load('import ratchet\nP = ratchet.prompt("system", "one")\n', "first.py")
    with pytest.raises(InputError, match=r"prompt in .*first.py, line 2 and a prompt in .*second"):
        load('import ratchet\nP = ratchet.prompt("system", "two")\n', "second.py")
    with pytest.raises(InputError, match="params in"):
        load('import ratchet\nP = ratchet.params("system", k=1)\n', "first.py")
    with pytest.raises(InputError, match=r"line 2 and a prompt in .*line 3"):
        load(
            'import ratchet\nP = ratchet.prompt("twice", "a")\nQ = ratchet.prompt("twice", "b")\n',
            "third.py",
        )


def test_a_reload_declares_the_same_resource_anew(load: Callable[..., ModuleType]) -> None:
    source = 'import ratchet\nP = ratchet.prompt("system", "one")\n'
    load(source)
    load("# a line above\n" + source.replace("one", "other"))
    declared = declarations()["system"]
    assert (declared.resource, declared.line) == (PromptTemplate("other"), 3)
    assert declared.file
    assert declared.file.endswith("agent_under_test.py")


def test_a_declaration_in_a_function_may_run_again() -> None:
    def make() -> ratchet.bind.Prompt:
        return ratchet.prompt("system", "again")

    make()
    make()
    assert list(declarations()) == ["system"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", None])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="is not a valid resource name"):
        ratchet.prompt(name, "text")


def test_resources_that_nobody_declared_bother_nobody(knobs: ratchet.bind.Knobs) -> None:
    with bound(Binding(resources={"other": Model("m")})):
        assert knobs.k == 5


def test_a_cheaper_model_is_asked_first_and_taken_where_its_answer_passes() -> None:
    llm = ratchet.model("answers", "large", choices=["small"], first="")
    asked: list[str] = []

    def ask(name: str) -> str:
        asked.append(name)
        return "?" if name == "small" and len(asked) > 1 else f"by {name}"

    def passes(answer: str) -> bool:
        return answer != "?"

    assert llm.ask(ask, passes) == "by large"
    cascade = msgspec.structs.replace(llm.default, first="small")
    with bound(Binding(resources={"answers": cascade})):
        asked.clear()
        assert llm.ask(ask, passes) == "by small"
        assert llm.ask(ask, passes) == "by large"
        assert asked == ["small", "small", "large"]
