"""The interface of evaluators, and the decorator that makes a function an evaluator."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import hashlib
import inspect
import math
import sqlite3
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import BrokenExecutor
from types import CodeType
from typing import Any, Literal, Protocol, TypeAlias, get_args, overload

import msgspec

from ratchet.types import BudgetExhausted, Cost, InputError, RatchetError, Rollout, Score, Span
from ratchet.types.hashing import HASH_LENGTH, content_hash

TIMEOUT_S = 30.0
"""Default time limit for a verdict, in seconds."""

PARAMETERS = ("output", "expected", "input", "metadata", "rollout", "spans")
"""Parameters that an evaluator's function may declare."""

SpansOf = Callable[[str], list[Span]]
"""Reads the spans of a rollout by its id."""

OnError: TypeAlias = Literal["zero", "missing"]
"""How the project counts an evaluator's failure on an answer. An outage always counts as a
missing score."""

MAX_CHARACTERS = 4_000
"""Maximum length of a rationale or error, in characters."""

EvaluatorBasis: TypeAlias = Literal["comparison", "execution", "measurement", "opinion"]
"""The basis of a score. comparison: with the expected answer. execution: running or compiling the
output. measurement: a clock or a counter. opinion: a judgement of the output by itself."""


VariantCheck: TypeAlias = Literal["order", "hardening"]
"""Checks of the report card that compare a judge with a variant of itself."""


class Unscored(Exception):
    """There is no score, for the stated reason; it counts as missing, whatever the answer."""


class UnfitTask(Unscored):
    """A task lacks what an evaluator needs, such as a nonempty expected answer.

    Args:
        problem: What is wrong with the task, as in "has no expected answer".
        task: The task's id, where it is known.
    """

    def __init__(self, problem: str, task: str = "") -> None:
        super().__init__(f"The task {problem}{f' (task {task})' if task else ''}.")
        self.problem = problem


class ImpossibleScore(Exception):
    """An evaluator's function returned something that is not a score."""


class Evaluator(Protocol):
    """Maps a rollout to a score."""

    @property
    def name(self) -> str:
        """Its name, unique in a project."""
        ...

    @property
    def version(self) -> str:
        """Hash of its source and settings; scores of different versions are kept apart."""
        ...

    @property
    def unit(self) -> str:
        """Empty for scores in [0, 1], else the unit of its numbers."""
        ...

    async def score(self, rollout: Rollout, spans_of: SpansOf) -> Score:
        """The score of a rollout. Failures become an error score.

        Raises:
            BudgetExhausted: The dollars for the model calls of a verdict are spent.
        """
        ...


def basis_of(evaluator: Evaluator) -> EvaluatorBasis:
    """The basis of an evaluator's scores; `opinion` if it does not state one."""
    basis: Any = getattr(evaluator, "basis", "opinion")
    return basis if basis in get_args(EvaluatorBasis) else "opinion"


class Judgement(msgspec.Struct, frozen=True):
    """A number with a rationale, as the return value of an evaluator's function."""

    value: float
    rationale: str = ""


class FunctionEvaluator:
    """An evaluator backed by a function; created by `@ratchet.evaluator`.

    Args:
        function: Sync or async; its parameters are among PARAMETERS; it returns a number, a boolean
            or a Judgement.
        name: Name of the evaluator.
        unit: Empty for scores in [0, 1].
        options: Settings of the function; part of the version.
        trusted: Known to return quickly: called without a thread and a time limit.
        timeout_s: Time limit of one verdict, in seconds.
        basis: What its scores rest on, which limits what it may decide (docs/report-cards.md); by
            default a comparison if the function asks for `expected`, else an opinion.
        on_error: What a failure on an answer counts as; by default 0 if the evaluator can score
            another answer to the same task, else missing. An outage is missing whatever this says.
        remedy: What would make it more reliable, as a sentence for a report card that turns it
            down.
        benchmarked: Measured by `benchmarks/evaluators.py`: few outputs for a report card are then
            no reason to doubt it.
    """

    is_judge = False
    """Whether its scores are opinions, by which experiments decide only with people's labels."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        unit: str = "",
        options: Mapping[str, Any] | None = None,
        trusted: bool = False,
        timeout_s: float = TIMEOUT_S,
        basis: EvaluatorBasis | None = None,
        on_error: OnError | None = None,
        remedy: str = "",
        benchmarked: bool = False,
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self.unit = unit
        self.version = content_hash([_source_hash(function), name, unit, dict(options or {})])
        self.on_error: OnError | None = None
        self.remedy = remedy
        self.benchmarked = benchmarked
        self._function = function
        self.trusted = trusted
        self.timeout_s = timeout_s
        self._is_async = inspect.iscoroutinefunction(function)
        parameters = inspect.signature(function).parameters
        self.asks_for = tuple(parameters)
        expected = parameters.get("expected")
        self.needs_expected = expected is not None and expected.default is expected.empty
        self.basis = basis or ("opinion" if expected is None else "comparison")
        unknown = [p for p in self.asks_for if p not in PARAMETERS]
        if unknown:
            raise InputError(
                f"The evaluator {name!r} has an unknown parameter {unknown[0]!r}; it may have "
                f"{', '.join(PARAMETERS)}."
            )
        if on_error is not None:
            self._decide_errors(on_error)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly, as in unit tests."""
        return self._function(*args, **kwargs)

    def named(self, name: str) -> FunctionEvaluator:
        """A copy with another name."""
        renamed = self.versioned(name)
        renamed.name = name
        return renamed

    def versioned(self, settings: Any) -> FunctionEvaluator:
        """A copy whose version includes these settings."""
        twin = copy.copy(self)
        twin.version = content_hash([self.version, settings])
        return twin

    def failing(self, on_error: OnError) -> FunctionEvaluator:
        """A copy that counts failures on an answer in this way."""
        twin = copy.copy(self)
        twin._decide_errors(on_error)
        return twin

    def _decide_errors(self, on_error: OnError) -> None:
        if on_error not in get_args(OnError):
            raise InputError(
                f"on_error = {on_error!r} is not one of {', '.join(get_args(OnError))}."
            )
        if self.unit:
            raise InputError(
                f"The evaluator {self.name!r} is measured in {self.unit}, in which 0 does not "
                "mean failure; on_error is for scores in [0, 1]."
            )
        self.on_error = on_error
        self.version = content_hash([self.version, "on_error", on_error])

    @property
    def reads_expected(self) -> bool:
        """Whether its verdict takes the expected answer into account."""
        return "expected" in self.asks_for

    def attach(self, store: Any) -> None:
        """Give it the store whose rollouts it scores, for evaluators that keep data there."""

    @property
    def spending(self) -> str:
        """The cost of its verdicts in this process, as a sentence; empty if there was none."""
        return ""

    @property
    def calls_per_score(self) -> int:
        """Number of model calls per verdict."""
        return 0

    def most_usd(self, rollout: Rollout) -> float | None:
        """The most that one model call for a verdict costs in dollars; None if it is unknown."""
        return 0.0

    @property
    def used(self) -> Cost:
        """The cost of the model answers behind its verdicts; nothing if it asks no model."""
        return Cost()

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that the evaluator asks."""
        return ()

    def again(self, trial: int) -> Evaluator:
        """The evaluator for another trial on the same output: it ignores earlier verdicts."""
        return self

    def variants(self) -> dict[VariantCheck, tuple[Evaluator, Evaluator]]:
        """The two evaluators whose scores a check compares, by the check's name."""
        return {}

    async def score(self, rollout: Rollout, spans_of: SpansOf) -> Score:
        """The score of a rollout; exceptions of the function become an error score."""
        try:
            return await self.verdict(rollout, spans_of)
        except BudgetExhausted:
            raise  # nobody has judged the output: that is no verdict on it
        except Exception as error:
            return missing(self, error)

    async def verdict(self, rollout: Rollout, spans_of: SpansOf) -> Score:
        """The score of a rollout.

        Raises:
            Unscored: The task has no expected answer, or the time limit is reached.
            ImpossibleScore: The function returned something that is not a score.
            Exception: What the function raises.
        """
        if self.needs_expected and rollout.expected is None:
            raise UnfitTask("has no expected answer")
        try:
            return await self._verdict(self._arguments(rollout, spans_of))
        except UnfitTask as error:
            raise UnfitTask(error.problem, rollout.task_id) from None

    async def _verdict(self, arguments: dict[str, Any]) -> Score:
        if self.trusted:
            return self._judged(self._function(**arguments))
        call = functools.partial(self._function, **arguments)
        started = _in_task(call) if self._is_async else _in_thread(call)
        try:
            finished, _ = await asyncio.wait({started}, timeout=self.timeout_s)
            if not finished:
                raise Unscored(f"No verdict within {self.timeout_s:g} s.")
            return self._judged(started.result())
        finally:
            started.cancel()  # a function that swallows the cancellation is abandoned

    def _arguments(self, rollout: Rollout, spans_of: SpansOf) -> dict[str, Any]:
        if not self.trusted and any(isinstance(v, (dict, list)) for v in _contents(rollout)):
            rollout = copy.deepcopy(rollout)  # isolate the function's changes from other evaluators
        values: dict[str, Callable[[], Any]] = {
            "output": lambda: rollout.output,
            "expected": lambda: rollout.expected,
            "input": lambda: rollout.input,
            "metadata": lambda: rollout.metadata,
            "rollout": lambda: rollout,
            "spans": lambda: spans_of(rollout.id),
        }
        return {name: values[name]() for name in self.asks_for}

    def _judged(self, returned: Any) -> Score:
        judgement = returned if isinstance(returned, Judgement) else Judgement(returned)
        value: Any = judgement.value
        if not isinstance(value, (bool, int, float)):
            kind = type(value).__name__
            raise ImpossibleScore(
                f"It returned {kind} instead of a number, a Boolean or Judgement(value, rationale)."
            )
        if not math.isfinite(value):
            raise ImpossibleScore(f"It returned {value}, which is not finite.")
        if not self.unit and not 0.0 <= value <= 1.0:
            raise ImpossibleScore(
                f"It returned {value:g}; a score must be between 0 and 1, unless the evaluator "
                "has a unit."
            )
        return Score(
            evaluator=self.name,
            version=self.version,
            value=float(value),
            unit=self.unit,
            rationale=str(judgement.rationale)[:MAX_CHARACTERS],
        )


@overload
def evaluator(function: Callable[..., Any], /) -> FunctionEvaluator: ...
@overload
def evaluator(
    *,
    name: str | None = None,
    unit: str = "",
    timeout_s: float = TIMEOUT_S,
    on_error: OnError | None = None,
) -> Callable[[Callable[..., Any]], FunctionEvaluator]: ...
def evaluator(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    unit: str = "",
    timeout_s: float = TIMEOUT_S,
    on_error: OnError | None = None,
) -> Any:
    """Make a function an evaluator.

    Args:
        function: Sync or async. Declares its inputs as parameters, among PARAMETERS. Returns a
            number in [0, 1], a boolean, or a Judgement with a rationale.
        name: The evaluator's name; the function's own by default.
        unit: Unit of its numbers, if they are not scores in [0, 1].
        timeout_s: Time limit of one verdict, in seconds.
        on_error: What a failure on an answer counts as: `zero` or `missing`. By default it is 0 if
            the evaluator can score another answer to the same task.

    Example:
        >>> @evaluator
        ... def cites_a_source(output):
        ...     return "http" in output
    """
    if function is None:
        return functools.partial(
            evaluator, name=name, unit=unit, timeout_s=timeout_s, on_error=on_error
        )
    own = getattr(function, "__name__", type(function).__name__)
    return FunctionEvaluator(
        function, name=name or own, unit=unit, timeout_s=timeout_s, on_error=on_error
    )


def missing(evaluator: Evaluator, error: Exception) -> Score:
    """A missing score, with the reason."""
    return Score(
        evaluator=evaluator.name,
        version=evaluator.version,
        value=None,
        unit=evaluator.unit,
        error=described(error)[:MAX_CHARACTERS],
    )


def described(error: BaseException, between: str = ": ") -> str:
    """An exception in words: its type and message; for an `Unscored`, only its message."""
    try:
        message = str(error)
    except Exception:  # a user's exception whose __str__ fails
        message = ""
    if isinstance(error, (Unscored, ImpossibleScore)):
        return message
    return f"{type(error).__name__}{between}{message}" if message else type(error).__name__


def is_outage(error: BaseException) -> bool:
    """Whether an exception comes from the environment and not from the answer: a time limit, a
    connection, a database, memory, an import, a killed process, or an error of Ratchet's own.
    """
    visited: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in visited:
        visited.add(id(cause))
        if _is_of_the_surroundings(cause):
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


_SURROUNDINGS = (
    *(Unscored, TimeoutError, subprocess.TimeoutExpired, ImportError, MemoryError),
    *(BrokenExecutor, asyncio.CancelledError),
)
_OF_A_PATH = (FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError)
"""Not an outage: an answer may name a file that does not exist."""
_BY_NAME = frozenset({"OperationalError", "InterfaceError", "HTTPError"})
"""Base classes of database drivers (PEP 249: "not necessarily under the control of the
programmer") and of HTTP clients, which are recognised without importing them."""


def _is_of_the_surroundings(error: BaseException) -> bool:
    if isinstance(error, _SURROUNDINGS):
        return True
    if isinstance(error, OSError):
        return not isinstance(error, _OF_A_PATH)
    if isinstance(error, RatchetError):
        return not isinstance(error, InputError)
    if isinstance(error, subprocess.CalledProcessError):
        return error.returncode < 0  # killed by a signal
    if isinstance(error, sqlite3.OperationalError):
        # The statement itself is wrong: an answer that is run as a query.
        return getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR
    return any(kind.__name__ in _BY_NAME for kind in type(error).__mro__)


def _source_hash(function: Any) -> str:
    # Callable objects are identified by their class: their repr contains an address.
    defined = function if inspect.isroutine(function) else type(function)
    try:
        source = inspect.getsource(defined)
    except (OSError, TypeError, SyntaxError):
        code = getattr(function, "__code__", None)
        source = _code_text(code) if code else f"{defined.__module__}.{defined.__qualname__}"
    return hashlib.sha256(source.encode(errors="replace")).hexdigest()[:HASH_LENGTH]


def _code_text(code: CodeType) -> str:
    """A text for compiled code that is the same in every process."""
    constants = [_constant_text(constant) for constant in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, constants))


def _constant_text(constant: object) -> str:
    if isinstance(constant, CodeType):
        return _code_text(constant)
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _contents(rollout: Rollout) -> tuple[Any, ...]:
    return rollout.output, rollout.expected, rollout.input, rollout.metadata or None


def _in_task(function: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
    async def work() -> Any:
        try:
            return await function()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RuntimeError("It cancelled itself.") from error
        except (SystemExit, KeyboardInterrupt) as error:
            # Raised in a separate task, this would end the event loop.
            raise RuntimeError(described(error)) from error

    task = asyncio.get_running_loop().create_task(work())
    # Retrieve the exception of an abandoned task, or asyncio logs it as never retrieved.
    task.add_done_callback(lambda t: t.cancelled() or t.exception())
    return task


def _in_thread(function: Callable[[], Any]) -> asyncio.Future[Any]:
    """Call in a daemon thread: a call that hangs is abandoned and does not delay the exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(function)
            if inspect.isawaitable(result):
                result = asyncio.run(_awaited(result))
        except Exception as error:
            failure = error
        except BaseException as error:  # SystemExit and the like
            failure = RuntimeError(described(error))
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            pass  # the loop is closed: nothing awaits the result

    threading.Thread(target=work, name="ratchet-evaluator", daemon=True).start()
    return future


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
