"""Evaluator of code: whether the output passes tests, run in the sandbox."""

from __future__ import annotations

import ast
import builtins
import secrets
from collections.abc import Sequence
from typing import Any

from ratchet.evaluate.json_difference import JsonComparison, short_notes
from ratchet.llm.answer_text import answer_of, code_blocks
from ratchet.types import InputError
from ratchet.worker.evaluator import FunctionEvaluator, Judgement, UnfitTask

MAX_TESTS = 100
MAX_CODE = 200_000

_HARNESS = """

def __ratchet_test__(source, mark):
    exec(compile(source, "<test>", "exec"), globals())
    return mark
"""


def code_tests(
    *,
    function: str | None = None,
    tests: Sequence[str] = (),
    partial: bool = False,
    seconds: float = 5.0,
    tolerance: float = 0.0,
) -> FunctionEvaluator:
    """1 if the output is Python code that passes all tests.

    The code is the last block that defines what the tests use, or else the last of Python, or else
    the whole output. Each test runs it anew in the
    sandbox, without network, and with the standard library only. A test is Python source, such as
    assertions, that runs after the code; or an object with `args`, `kwargs` and `result`, of which
    the function named by `function` must make the result, which is compared outside of the sandbox.
    Without a sandbox on this machine there is no score.

    Args:
        function: The function that tests with `args` call.
        tests: Tests in source, for every task; by default the task's metadata `tests`, or else its
            expected answer.
        partial: Score the share of tests that pass.
        seconds: Time limit of a test. A test that takes longer fails.
        tolerance: Largest difference of equal numbers in results.

    Raises:
        InputError: `seconds` or the tolerance is out of range.
    """
    if not 0 < seconds <= 60:
        raise InputError(f"seconds = {seconds} must be a number above 0, and at most 60.")
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"The tolerance is {tolerance}; it must be a finite number, 0 or more.")
    comparison = JsonComparison(tolerance=tolerance)

    async def judge(output: Any, metadata: dict[str, Any], expected: Any = None) -> Judgement:
        from ratchet.sandbox import SandboxLimits, function_pool

        task_tests = list(tests) or metadata.get("tests", expected)
        cases = task_tests if isinstance(task_tests, list) else [task_tests]
        if task_tests is None or not cases:
            raise UnfitTask("has no tests")
        if len(cases) > MAX_TESTS:
            raise InputError(f"The task has more than {MAX_TESTS} tests.")
        for case in cases:
            _check(case, function)
        code = _code_of(answer_of(output), _used(cases, function))
        if not code:
            return Judgement(0.0, "the output holds no code")
        limits = SandboxLimits(seconds=seconds)
        failures = []
        async with function_pool(limits=limits, slots=1) as pool:
            for number, case in enumerate(cases, start=1):
                why = await _failure(pool, code, case, function, comparison)
                if why:
                    failures.append(f"test {number}: {why}")
                    if not partial:
                        break
        if partial:
            return Judgement(1 - len(failures) / len(cases), short_notes(failures, 5))
        return Judgement(float(not failures), short_notes(failures))

    return FunctionEvaluator(
        judge,
        name="code_tests",
        benchmarked=True,
        options={
            "function": function,
            "tests": list(tests),
            "partial": partial,
            "seconds": seconds,
            "tolerance": tolerance,
        },
        timeout_s=seconds * MAX_TESTS + 60,
    )


async def _failure(
    pool: Any, code: str, case: Any, function: str | None, comparison: JsonComparison
) -> str:
    """Why a test fails, as a clause; empty if it passes."""
    from ratchet.sandbox import call

    if isinstance(case, str):
        # The mark comes back only from a test that ran to its end.
        mark = secrets.token_hex(16)
        ran = await call(code + _HARNESS, "__ratchet_test__", [case, mark], pool=pool)
        if ran.status == "ok":
            return "" if ran.value == mark else "it did not run to the end"
        return _shown(ran.error)
    assert function is not None
    ran = await call(code, function, case.get("args", ()), case.get("kwargs"), pool=pool)
    if ran.status != "ok":
        return _shown(ran.error)
    return short_notes(comparison.difference(case["result"], ran.value).notes, 3)


def _check(case: Any, function: str | None) -> None:
    if isinstance(case, str):
        tree = _parsed(case)
        if tree is not None and not tree.body:
            raise UnfitTask("has an empty test, which any code would pass")
        return
    if not (isinstance(case, dict) and "result" in case and isinstance(case.get("args", []), list)):
        raise InputError("A test must be source code, or an object with args, kwargs and result.")
    if function is None:
        raise InputError("Tests with args need the option `function`, the function to call.")


def _used(cases: Sequence[Any], function: str | None) -> frozenset[str]:
    """The names that tests use from the code."""
    if function is not None:
        return frozenset([function])
    trees = [_parsed(case) for case in cases if isinstance(case, str)]
    names = [
        node for tree in trees if tree for node in ast.walk(tree) if isinstance(node, ast.Name)
    ]
    stored = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    return frozenset(node.id for node in names) - stored - frozenset(dir(builtins))


def _code_of(output: Any, used: frozenset[str]) -> str:
    if not isinstance(output, str):
        return ""
    if len(output) > MAX_CODE:
        raise InputError(f"The output is longer than {MAX_CODE} characters.")
    blocks = [block.text for block in code_blocks(output)]
    trees = {block: _parsed(block) for block in blocks}
    defining = [block for block in blocks if used & _defined(trees[block])]
    python = [block for block in blocks if trees[block] is not None]
    return [output, *blocks[-1:], *python[-1:], *defining[-1:]][-1].strip("\n")


def _parsed(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defined(tree: ast.Module | None) -> frozenset[str]:
    """The names that a module defines at its top."""
    names = set()
    for node in tree.body if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


def _shown(error: str) -> str:
    return error.strip()[:500] or "it failed"
