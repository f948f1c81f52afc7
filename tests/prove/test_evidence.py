"""Evidence: what is written verifies, and nothing altered does."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.prove import (
    Comparison,
    ExperimentPlan,
    Guardrail,
    PairedScore,
    decision,
    level,
    verify,
    write_evidence,
)
from ratchet.prove import verification as verification_module
from ratchet.prove.comparison import replay
from ratchet.prove.evidence import digest_of, render
from ratchet.types import InputError, RatchetError, VerificationError

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))

HISTORY = [False, True]


def compared(gain: float = 0.1, count: int = 60, seed: int = 5) -> Comparison:
    rng = random.Random(seed)
    rails = (Guardrail("cost", 0.02, 0.1, "USD"), Guardrail("latency", 0.5, aggregate="relative"))
    plan = ExperimentPlan(
        metric="mrr", alpha=level(0.05, HISTORY), guardrails=rails, max_pairs=count, seed=7
    )
    rows = []
    for i in range(count):
        before = None if i % 20 == 3 else rng.uniform(0.2, 0.6)
        metrics = {
            "cost": (rng.uniform(0.01, 0.02), rng.uniform(0.01, 0.02)),
            "latency": (rng.uniform(1.0, 1.2), rng.uniform(1.0, 1.2)),
        }
        failed = ("baseline",) if i % 20 == 7 else ()
        rows.append(
            PairedScore(
                f"q{i:04d}",
                None if failed else before,
                max(0.0, min(1.0, (before or 0.4) + gain + rng.gauss(0.0, 0.05))),
                metrics,
                failed,
                f"b{i}",
                f"c{i}",
            )
        )
    return replay(plan, rows)


def write(path: Path, comparison: Comparison) -> str:
    return write_evidence(
        path,
        comparison,
        baseline={"id": "aaa", "versions": {"system": "1"}},
        candidate={"id": "bbb", "versions": {"system": "2"}},
        dataset={"name": "questions", "version": "ccc", "split": "test"},
        budget=0.05,
        history=HISTORY,
        created_at=1_760_000_000.5,
        context={"seeds": [1, 2]},
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("evidence") / "evidence.json"
    write(path, compared())
    return dict(json.loads(path.read_text()))


def leaves(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*at, key))]
    if isinstance(value, list) and value:
        return [leaf for i, item in enumerate(value) for leaf in leaves(item, (*at, i))]
    return [at]


def put(content: dict[str, Any], at: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(content)
    target: Any = changed
    for key in at[:-1]:
        target = target[key]
    target[at[-1]] = value
    return changed


def get(content: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        content = content[key]
    return content


def caught(path: Path) -> str:
    """What verification says against the file; empty when it finds nothing."""
    try:
        found = verify(path).findings
        return found[0] if found else ""
    except VerificationError as error:
        return str(error)


def test_written_evidence_verifies_and_gives_the_same_decision(tmp_path: Path) -> None:
    comparison = compared()
    path = tmp_path / "deep" / "evidence.json"
    digest = write(path, comparison)
    result = verify(path).require()
    assert result.ok
    assert result.digest == digest
    assert result.decision == decision(comparison)
    assert result.pairs == len(comparison.pairs)


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [(-0.2, "futile"), (0.0, "no_gain"), (0.03, "not_proved"), (0.15, "promote")],
)
def test_evidence_of_every_outcome_verifies(tmp_path: Path, gain: float, verdict: str) -> None:
    comparison = compared(gain)
    assert comparison.verdict == verdict
    write(tmp_path / "e.json", comparison)
    assert verify(tmp_path / "e.json").ok


@settings(max_examples=300 if LONG else 10)
@given(data=st.data())
def test_any_single_altered_value_is_caught(
    written: dict[str, Any], tmp_path: Path, data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from(leaves(written)))
    old = get(written, at)
    new = data.draw(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-3, 10**30),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(max_size=4),
            st.just([]),
            st.just({}),
        ).filter(lambda value: (type(value), repr(value)) != (type(old), repr(old)))
    )
    changed = put(written, at, new)
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(changed))
    assert caught(path), f"{at}: {old!r} -> {new!r} went unnoticed"


@settings(max_examples=150 if LONG else 10)
@given(data=st.data())
def test_an_altered_number_is_caught_even_with_a_fresh_digest(
    written: dict[str, Any], tmp_path: Path, data: st.DataObject
) -> None:
    computed = [
        at
        for at in leaves(written)
        if isinstance(get(written, at), float)
        and at[0] not in ("created_at", "context")
        # Scores and limits are the input: changing one changes what is recomputed.
        and (at[0] in ("decision", "means", "alpha") or "e_values" in at)
    ]
    at = data.draw(st.sampled_from(computed))
    changed = put(written, at, get(written, at) * (1 + 2**-52) + 5e-324)
    changed["digest"] = digest_of(changed)
    path = tmp_path / "altered.json"
    path.write_text(render(changed))
    assert caught(path)


def test_the_first_pair_that_differs_is_named(written: dict[str, Any], tmp_path: Path) -> None:
    changed = put(written, ("pairs", 4, "e_values", "superiority"), 3.5)
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(changed))
    finding = verify(path).findings[0]
    assert finding.startswith("pair 5 (task q0004): e-value of superiority: 3.5 stated, ")
    with pytest.raises(VerificationError, match=r"pair 5 \(task q0004\)"):
        verify(path).require()


def test_an_altered_score_is_named_by_the_e_values_that_no_longer_follow(
    written: dict[str, Any], tmp_path: Path
) -> None:
    changed = put(written, ("pairs", 1, "candidate"), 0.999)
    changed["digest"] = digest_of(changed)
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(changed))
    assert verify(path).findings[0].startswith("pair 2 (task q0001): e-value")


def test_dropped_swapped_or_added_pairs_are_caught(written: dict[str, Any], tmp_path: Path) -> None:
    rows = written["pairs"]
    path = tmp_path / "altered.json"
    for changed_rows in (
        rows[:-1],
        rows[1:],
        [rows[1], rows[0], *rows[2:]],
        [*rows, rows[0]],
        [],
    ):
        changed = {**written, "pairs": changed_rows}
        changed["digest"] = digest_of(changed)
        path.write_text(json.dumps(changed))
        assert caught(path)


def test_pairs_after_the_verdict_are_named(written: dict[str, Any], tmp_path: Path) -> None:
    rows = written["pairs"]
    extra = {**rows[-1], "pair": len(rows) + 1}
    path = tmp_path / "altered.json"
    path.write_text(json.dumps({**written, "pairs": [*rows, extra]}))
    assert f"reached after pair {len(rows)}" in " ".join(verify(path).findings)


def test_added_and_removed_keys_are_caught(written: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "altered.json"
    path.write_text(json.dumps({**written, "note": "trust me"}))
    assert "note" in caught(path)
    for key in written:
        path.write_text(json.dumps({k: v for k, v in written.items() if k != key}))
        assert caught(path)


def test_a_key_given_twice_is_refused(tmp_path: Path, written: dict[str, Any]) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"digest": "x", ' + json.dumps(written)[1:])
    assert "given twice" in caught(path)


def test_the_level_must_follow_from_the_budget_and_its_history(
    written: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "altered.json"
    changed = put(written, ("alpha", "history"), [False, True, False])
    changed["digest"] = digest_of(changed)
    path.write_text(json.dumps(changed))
    assert "after 3 experiments" in " ".join(verify(path).findings)
    with pytest.raises(InputError, match="budget"):
        write_evidence(
            path, compared(), baseline={}, candidate={}, dataset={}, budget=0.05, history=[]
        )


@settings(max_examples=150 if LONG else 10)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["schema", "plan", "pairs", "alpha", "digest", "x"]), inner
                )
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_whatever_a_file_holds_it_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzz.json"
    path.write_bytes(content)
    with pytest.raises(VerificationError):
        verify(path)


@settings(max_examples=200 if LONG else 10)
@given(data=st.data())
def test_a_part_replaced_by_anything_is_refused_in_a_sentence(
    written: dict[str, Any], tmp_path: Path, data: st.DataObject
) -> None:
    at = data.draw(
        st.sampled_from([leaf[:n] for leaf in leaves(written) for n in range(1, len(leaf) + 1)])
    )
    new = data.draw(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=6,
        )
    )
    path = tmp_path / "fuzz.json"
    path.write_text(json.dumps(put(written, at, new)))
    with contextlib.suppress(RatchetError):
        verify(path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"schema": NaN}',
        '{"schema": "ratchet.evidence/2"}',
        '{"schema": ' + "9" * 10_000 + "}",
        '{"schema": "ratchet.evidence/1", "plan": {}, "pairs": [], "alpha": {}}',
        '{"schema": "ratchet.evidence/1", "plan": {}, "pairs": [3], "alpha": {"history": []}}',
        '{"schema": "ratchet.evidence/1", "plan": {"max_pairs": 1e400}, "pairs": [], "alpha": {}}',
    ],
)
def test_hostile_files_are_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hostile.json"
    path.write_text(text)
    with pytest.raises(VerificationError):
        verify(path)


def test_a_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification_module, "MAX_FILE_BYTES", 10)
    path = tmp_path / "huge.json"
    path.write_text(" " * 11)
    with pytest.raises(VerificationError, match="11 bytes"):
        verify(path)


def test_a_missing_file_or_a_folder_is_an_input_error(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            verify(path)


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "evidence.json"
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write(path, compared())
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["evidence.json"]


def test_its_owner_alone_may_read_the_file(tmp_path: Path) -> None:
    write(tmp_path / "evidence" / "e.json", compared())
    assert stat.S_IMODE((tmp_path / "evidence" / "e.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "evidence").stat().st_mode) == 0o700


def test_what_has_no_json_form_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    for bad in ({"id": object()}, {"id": float("nan")}, {1: "a", "1": "b"}):
        with pytest.raises(InputError):
            write_evidence(path, compared(), baseline=bad, candidate={}, dataset={})
    assert not path.exists()
