"""The evaluator `judge`, and its options in `ratchet.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.evaluate.judges.clients import JudgeModels
from ratchet.evaluate.judges.judge import Judge, JudgeSpec, JudgeSpending
from ratchet.evaluate.judges.material import MATERIAL_PARTS, Part
from ratchet.evaluate.judges.outlook import AnswersOutlook
from ratchet.evaluate.judges.prompt import (
    SAME_AS_REFERENCE,
    TEMPLATES,
    Criterion,
    Form,
    LabelledExample,
    check_template,
)
from ratchet.llm import Account, CoachModel, CoachSettings
from ratchet.store import Store
from ratchet.types import Cost, InputError, PromptTemplate, Rollout, Span
from ratchet.types.wording import counted
from ratchet.worker.evaluator import Evaluator, FunctionEvaluator, Judgement, VariantCheck

TIMEOUT_S = 900.0
"""Time limit of one verdict, which may take several calls with retries, in seconds."""

READS: dict[Form, tuple[Part, ...]] = {
    "rubric": ("input", "output"),
    "reference": ("input", "expected", "output"),
    "pairwise": ("input", "output"),
}
"""What each form reads by default."""


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """The alignment that `ratchet align` adds to a judge."""

    examples: tuple[LabelledExample, ...] = ()
    """Labelled cases shown to the judge."""
    wording: dict[str, str] = {}
    """Configured questions that are reworded."""
    curve: tuple[tuple[float, float], ...] = ()
    """Points of the line that maps its scores to the labels' scale, by score; none when empty."""


class JudgeEvaluator(FunctionEvaluator):
    """An evaluator that asks a judge.

    Args:
        judge: The judge.
        alignment: What maps its scores to the labels' scale.
    """

    is_judge = True
    """An experiment can decide by its scores only with people's labels."""

    def __init__(self, judge: Judge, alignment: Alignment | None = None) -> None:
        self.judge = judge
        self._alignment = alignment or Alignment()
        self.wording = self._alignment.wording
        curve = self._alignment.curve
        reads_trace = "trace" in judge.spec.reads

        async def of_trace(rollout: Rollout, spans: list[Span]) -> Judgement:
            return _mapped(await judge.judge(rollout, spans), curve)

        async def of_rollout(rollout: Rollout) -> Judgement:
            return _mapped(await judge.judge(rollout), curve)

        super().__init__(
            of_trace if reads_trace else of_rollout,
            name=judge.name,
            options={"spec": msgspec.to_builtins(judge.spec), "curve": curve},
            timeout_s=TIMEOUT_S,
        )

    def named(self, name: str) -> FunctionEvaluator:
        """A copy with another name."""
        self.judge.name = name
        return super().named(name)

    @property
    def spending(self) -> str:
        """Its calls and their cost, as a sentence; empty without calls."""
        spent = self.judge.spending
        if not spent.calls:
            return ""
        calls = "1 call" if spent.calls == 1 else counted(spent.calls, "call")
        return f"The judge {self.name!r} made {calls} for {spent.cost}."

    @property
    def calls_per_score(self) -> int:
        """Number of model calls of one verdict."""
        spec = self.judge.spec
        orders = 2 if spec.form == "pairwise" and spec.swap else 1
        return len(spec.models) * spec.samples * orders

    def most_usd(self, rollout: Rollout) -> float | None:
        """Maximum cost of a model call for a verdict, in dollars; None if unknown."""
        return self.judge.most_usd(rollout)

    @property
    def used(self) -> Cost:
        """Original cost of the answers behind its verdicts."""
        return self.judge.spending.used

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that it asks."""
        return self.judge.spec.models

    @property
    def reads_expected(self) -> bool:
        """Whether the judge sees the expected answer."""
        return "expected" in self.judge.spec.reads or self.judge.spec.form == "pairwise"

    def again(self, trial: int) -> Evaluator:
        """A copy that asks its models again."""
        return JudgeEvaluator(self.judge.again(trial), self._alignment)

    def foreseen(self, outlook: AnswersOutlook) -> Evaluator:
        """A copy that counts stored and missing answers instead of asking."""
        return JudgeEvaluator(self.judge.foreseen(outlook), self._alignment)

    @property
    def account(self) -> Account | None:
        """The account that bounds the cost of its calls; None for no separate bound."""
        return self.judge.spending.account

    def variants(self) -> dict[VariantCheck, tuple[Evaluator, Evaluator]]:
        """Copies without the defence against injections or, if pairwise, with one order."""
        plain = JudgeEvaluator(self.judge.undefended(), self._alignment)
        variants: dict[VariantCheck, tuple[Evaluator, Evaluator]] = {"hardening": (self, plain)}
        if self.judge.spec.form == "pairwise":
            forward, backward = (
                JudgeEvaluator(self.judge.in_one_order(reversed=reversed))
                for reversed in (False, True)
            )
            variants["order"] = (forward, backward)
        return variants

    def attach(self, store: Store) -> None:
        """Store the judge's answers in a store."""
        self.judge.attach(store)


def judge(
    *,
    form: Form = "rubric",
    criteria: Sequence[str | Criterion] = (),
    instructions: str = "",
    reads: Sequence[Part] = (),
    spans: Sequence[str] = (),
    samples: int = 1,
    swap: bool = True,
    prompt: str = "",
    alignment: str = "",
    model: str = "",
    models: Sequence[str | CoachModel] = (),
    base_url: str = "",
    key_env: str | None = None,
    input_price: float | None = None,
    output_price: float | None = None,
    max_tokens: int | None = 4_000,
    timeout_s: float = 120.0,
    total_s: float = 600.0,
    retries: int = 6,
    concurrency: int = 16,
    max_dollars: float | None = None,
    folder: str = ".",
) -> FunctionEvaluator:
    """A language model that grades rollouts.

    Args:
        form: rubric: questions with the answer yes or no. reference: whether the answer says the
            same as the expected one. pairwise: whether it is preferred to the expected one.
        criteria: The questions, with weights; one of `criteria` and `instructions` for a rubric.
        instructions: What a good answer is, as one question.
        reads: What it is shown, of input, output, expected and trace.
        spans: Names of the spans that it is shown of the trace, as patterns; all by default.
        samples: How often each model is asked.
        swap: Pairwise: ask in both orders; a preference that depends on it is a tie.
        prompt: File with another template, which has {material} and {questions}.
        alignment: File made by `ratchet align`.
        model: The model, as under [coach].
        models: Several, a jury; the score is the mean of their votes.
        base_url: Endpoint of models without one.
        key_env: Environment variable of its key.
        input_price: Dollars per million input tokens, for models without a price.
        output_price: Dollars per million output tokens.
        max_tokens: Maximum number of tokens of one answer.
        timeout_s: Timeout of one attempt, in seconds.
        total_s: Timeout of one call with its retries, in seconds.
        retries: Maximum retries of a request.
        concurrency: Maximum concurrent requests.
        max_dollars: Bound of what its calls may cost in one command.
        folder: Folder that files are relative to.

    Raises:
        InputError: An option is out of range or missing, or a file cannot be read.
    """
    root = Path(folder)
    jury = _jury(model, models, base_url, key_env, input_price, output_price)
    if samples < 1:
        raise InputError(f"samples = {samples} is not a positive number.")
    if max_dollars is not None and max_dollars <= 0:
        raise InputError(f"max_dollars = {max_dollars:g} is not a positive number.")
    template = TEMPLATES[form]
    if prompt:
        template = PromptTemplate(_file(root / prompt))
    check_template(template)
    aligned = Alignment()
    if alignment:
        try:
            aligned = msgspec.json.decode(_file(root / alignment), type=Alignment)
        except msgspec.DecodeError as error:
            raise InputError(
                f"{root / alignment} is not an alignment of a judge: {error}.",
                hint="Create it again: ratchet align NAME.",
            ) from None
    spec = JudgeSpec(
        form=form,
        criteria=_reworded(_criteria(form, criteria, instructions), aligned.wording),
        prompt=template,
        models=tuple(juror.name for juror in jury),
        reads=_reads(form, reads),
        spans=tuple(spans),
        samples=samples,
        swap=swap,
        examples=aligned.examples,
    )
    settings = CoachSettings(
        timeout_s=timeout_s,
        total_s=total_s,
        retries=retries,
        concurrency=concurrency,
        max_tokens=max_tokens,
        patient=True,
    )
    bound = None if max_dollars is None else Account(max_dollars, name="The judge's max_dollars")
    models_asked = JudgeModels(jury, settings, folder=root)
    grader = Judge("judge", spec, models_asked, spending=JudgeSpending(bound))
    return JudgeEvaluator(grader, aligned)


def _jury(
    model: str,
    models: Sequence[str | CoachModel],
    base_url: str,
    key_env: str | None,
    input_price: float | None,
    output_price: float | None,
) -> list[CoachModel]:
    if model and models:
        raise InputError("A judge takes either model or models.")
    jury = [CoachModel(name=m) if isinstance(m, str) else m for m in (models or (model,)) if m]
    if not jury:
        raise InputError(
            "The judge has no model.", hint='Set model = "…", or a model under [coach].'
        )
    names = [juror.name for juror in jury]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"The judge's jury lists {name!r} twice.", hint="Use samples instead.")
    return [
        msgspec.structs.replace(
            juror,
            base_url=juror.base_url or base_url or None,
            key_env=key_env if juror.key_env is None else juror.key_env,
            input_price=input_price if juror.input_price is None else juror.input_price,
            output_price=output_price if juror.output_price is None else juror.output_price,
        )
        for juror in jury
    ]


def _criteria(
    form: Form, criteria: Sequence[str | Criterion], instructions: str
) -> tuple[Criterion, ...]:
    if criteria and instructions:
        raise InputError("A judge takes either criteria or instructions.")
    parsed = tuple(Criterion(c) if isinstance(c, str) else c for c in criteria)
    if instructions:
        parsed = (Criterion(instructions),)
    for criterion in parsed:
        if not criterion.question.strip():
            raise InputError("A criterion of the judge is empty.")
        if not 0.0 < criterion.weight < float("inf"):
            raise InputError(
                f"The weight {criterion.weight:g} of the criterion {criterion.question!r} is not a"
                " positive number."
            )
    if form == "rubric" and not parsed:
        raise InputError(
            "A rubric judge has no criteria.",
            hint='Add questions: criteria = ["Does the answer name a price?"].',
        )
    if form == "pairwise" and len(parsed) > 1:
        raise InputError("A pairwise judge takes one question, but has several criteria.")
    return parsed or ((SAME_AS_REFERENCE,) if form == "reference" else ())


def _reworded(criteria: Sequence[Criterion], wording: Mapping[str, str]) -> tuple[Criterion, ...]:
    return tuple(
        msgspec.structs.replace(
            criterion, question=wording.get(criterion.question, criterion.question)
        )
        for criterion in criteria
    )


def _reads(form: Form, reads: Sequence[Part]) -> tuple[Part, ...]:
    wanted = tuple(part for part in MATERIAL_PARTS if part in (reads or READS[form]))
    if "output" not in wanted:
        raise InputError("A judge reads the output; add it to reads.")
    if form == "reference" and "expected" not in wanted:
        raise InputError("A reference judge reads the expected answer; add it to reads.")
    return wanted


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 at byte {error.start + 1}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _mapped(judgement: Judgement, curve: Sequence[tuple[float, float]]) -> Judgement:
    """The judgement, mapped to the labels' scale."""
    if not curve:
        return judgement
    from ratchet.stats.calibration import interpolated

    value: Any = interpolated(curve, judgement.value)
    return Judgement(value, judgement.rationale)
