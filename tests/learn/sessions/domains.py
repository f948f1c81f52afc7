"""Three small domains with rules that no prompt names at first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ratchet.evaluate import Judgement
from ratchet.types import Candidate, Int, Params, PromptTemplate, Rollout, Span, Task
from tests.learn.conftest import FakeRunner


class Domain(NamedTuple):
    """A simulated agent, its tasks and its evaluator."""

    baseline: Candidate
    agent: Callable[[Mapping[str, Any], Any], Any]
    judge: Callable[[Any, Any], Judgement]
    tasks: Callable[[str, int], list[Task]]


def says(prompt: str, *patterns: str) -> bool:
    """Whether one sentence of a prompt matches all patterns, and does not hedge."""
    for sentence in re.split(r"(?<=[.;])\s+|\n", prompt.lower()):
        if all(re.search(pattern, sentence) for pattern in patterns):
            hedged = re.search(r"\btry\b|if possible|ideally|usually|preferably", sentence)
            if not hedged:
                return True
    return False


# Support tickets: which queue one belongs to, and how to say it.

TICKETS = (
    ("I was charged twice in March, please send one back.", "billing", "refund"),
    ("I cannot log in since I have a new phone.", "access", "login"),
    ("All my files of last week are gone!", "urgent", "loss"),
    ("Please delete my account and everything in it.", "privacy", "deletion"),
    ("The export button does nothing.", "product", ""),
    ("Can you send me the invoice with our VAT number?", "billing", "invoice"),
    ("My colleague left, who can take over her workspace?", "access", "owner"),
    ("The report is empty after today's import, and the old rows are gone.", "urgent", "loss"),
    ("It would be great to have a dark mode.", "product", ""),
    ("Which data of mine do you keep?", "privacy", "deletion"),
)

TICKET_RULES = {
    "refund": (r"charge|refund|money|payment", r"billing"),
    "invoice": (r"invoice|vat|billing document", r"billing"),
    "login": (r"log[- ]?in|sign[- ]?in|password|phone", r"access"),
    "owner": (r"owner|workspace|hand|take over|left|membership", r"access"),
    "loss": (r"gone|lost|loss|missing", r"urgent"),
    "deletion": (r"delet|personal data|data of|data .*keep|stored", r"privacy"),
}


def ticket_tasks(split: str, count: int) -> list[Task]:
    """So many tickets."""
    found = []
    for number in range(count):
        text, queue, _ = TICKETS[number % len(TICKETS)]
        found.append(Task(f"{split}{number}", f"#{number + 1} {text}", queue))
    return found


def triage(resources: Mapping[str, Any], given: Any) -> str:
    """The agent: without a rule it files under product, in a sentence of its own."""
    prompt = resources["system"].text
    right, rule = next((queue, rule) for text, queue, rule in TICKETS if text in given)
    queue = right if rule and says(prompt, *TICKET_RULES[rule]) else "product"
    if says(prompt, r"only|nothing else|single word|one word|just", r"name|queue|word"):
        return queue
    return f"This looks like something for the {queue.title()} team."


def judge_queue(output: str, expected: str) -> Judgement:
    """1 for the right queue in the right form, a half for the right queue in a sentence."""
    if output == expected:
        return Judgement(1.0, "right")
    if expected in output.lower():
        return Judgement(0.5, f"the queue is right, but the answer must be exactly {expected!r}")
    return Judgement(0.0, f"wrong queue: expected {expected!r}")


# Dates: as a form wants them.

DATES = (
    ("3/4/24", "2024-04-03", "day first"),
    ("21 March", "2026-03-21", "year"),
    ("next Monday", "unclear", "relative"),
    ("2025-07-01", "2025-07-01", ""),
    ("1.9.23", "2023-09-01", "day first"),
    ("mid May 2025", "unclear", "vague"),
    ("Dec 5, 2024", "2024-12-05", ""),
    ("4 July", "2026-07-04", "year"),
    ("31/11/2025", "invalid", "invalid"),
    ("30.2.2024", "invalid", "invalid"),
)

DATE_RULES = {
    "day first": (r"day", r"first|before the month|dd"),
    "year": (r"year", r"2026"),
    "relative": (r"unclear", r"relative|next|weekday|tomorrow|depend"),
    "vague": (r"unclear", r"vague|mid|approximate|no (exact )?day|without a day|imprecise"),
    "invalid": (r"invalid", r"exist|impossible|calendar"),
}


def date_tasks(split: str, count: int) -> list[Task]:
    """So many dates."""
    return [
        Task(f"{split}{n}", {"nr": n, "text": DATES[n % 10][0]}, DATES[n % 10][1])
        for n in range(count)
    ]


def normalise(resources: Mapping[str, Any], given: Any) -> str:
    """The agent: guesses as Americans do where the prompt states no rule, and writes it out."""
    prompt = resources["system"].text
    _, right, rule = DATES[given["nr"] % 10]
    known = not rule or says(prompt, *DATE_RULES[rule])
    answer = right if known else "2024-03-04" if rule == "day first" else "2024-01-01"
    if says(prompt, r"yyyy-mm-dd|iso") or not answer[0].isdigit():
        return answer
    return f"Date: {answer.replace('-', '/')}"


def judge_date(output: str, expected: str) -> Judgement:
    """1 for the date as YYYY-MM-DD, a third if only the form differs."""
    if output == expected:
        return Judgement(1.0, "right")
    if output.removeprefix("Date: ").replace("/", "-") == expected:
        return Judgement(0.3, f"right date in the wrong form; the form needs {expected}")
    return Judgement(0.0, f"expected {expected}")


# Answers of a shop's desk: it looks up the stock, and may promise only what that says.

ITEMS = ("lamp", "chair", "desk", "shelf", "rug", "sofa", "clock", "mirror")


def desk_tasks(split: str, count: int) -> list[Task]:
    """So many questions."""
    return [
        Task(
            f"{split}{n}", {"question": f"Do you have {2 + n % 5} of the {ITEMS[n % 8]}?", "nr": n}
        )
        for n in range(count)
    ]


def stock(given: Any) -> int:
    """Pieces in stock."""
    return int(given["nr"] * 3 % 7)


def desk(resources: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The agent: chatty, and silent on what is missing, until the prompt firmly says otherwise."""
    prompt = resources["desk"].text
    wanted, there = 2 + given["nr"] % 5, stock(given)
    words = ["Yes, we have it."] if there else ["I am afraid we do not have it."]
    if says(prompt, r"number|quantity|how many|count", r"stock|available|left|there"):
        words = [f"We have {there}."]
        if there < wanted and says(prompt, r"fewer|less|not enough|short|cover|missing"):
            words.append(f"{wanted - there} can be ordered.")
    if not says(prompt, r"short|brief|words|sentence|concise|nothing else"):
        words.append("Our friendly team is always happy to help you with anything else you need.")
    return {"answer": " ".join(words), "wanted": wanted, "stock": there}


def judge_desk(output: dict[str, Any]) -> Judgement:
    """Parts for the number, for what is missing, and for brevity."""
    text, faults, value = output["answer"], [], 1.0
    if str(output["stock"]) not in text:
        value, faults = value - 0.5, ["does not say how many are in stock"]
    if output["stock"] < output["wanted"] and "can be ordered" not in text:
        value, faults = value - 0.3, [*faults, "does not offer to order what is missing"]
    if len(text.split()) > 10:
        value = value - 0.2
        faults.append(f"{len(text.split())} words are too long for the display")
    return Judgement(max(0.0, value), "; ".join(faults) or "right")


class DeskRunner(FakeRunner):
    """Keeps a trace with each rollout: the desk's look into the stock."""

    async def run(self, rollouts: Any, candidates: Any, on_finish: Any = None) -> Any:
        ended = await super().run(rollouts, candidates, on_finish)
        for rollout in ended.values():
            self.store.spans.add(rollout.id, rollout.fence, [_lookup(rollout)])
        return ended


def _lookup(rollout: Rollout) -> Span:
    item = rollout.input["question"].split()[-1].strip("?")
    return Span(
        trace_id=rollout.id,
        span_id="1" * 16,
        parent_id="f" * 16,
        name="execute_tool stock",
        start_ns=1,
        end_ns=2,
        attributes={
            "gen_ai.tool.name": "stock",
            "gen_ai.tool.call.arguments": f'{{"item":"{item}"}}',
            "gen_ai.tool.call.result": f'{{"pieces":{stock(rollout.input)}}}',
        },
    )


DOMAINS = {
    "tickets": Domain(
        Candidate.of({"system": PromptTemplate("You sort the tickets of our customers.")}),
        triage,
        judge_queue,
        ticket_tasks,
    ),
    "dates": Domain(
        Candidate.of({"system": PromptTemplate("You read dates. Usually answer as YYYY-MM-DD.")}),
        normalise,
        judge_date,
        date_tasks,
    ),
    "desk": Domain(
        Candidate.of(
            {
                "desk": PromptTemplate("You answer at the desk of a shop. Try to be short."),
                "sampling": Params({"max_words": Int(40, 5, 60)}),
            }
        ),
        desk,
        judge_desk,
        desk_tasks,
    ),
}
