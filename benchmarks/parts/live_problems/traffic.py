"""Simulated traffic of a support agent, with planted problems and noise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from ratchet.types import Feedback, Score, Span, SpanEvent
from ratchet.types.span import SpanRecord

AGENT = "support"
DAY_S = 86_400.0

OPENINGS = (
    "", "Hi, ", "Hello there. ", "Good morning, ", "Quick question: ", "Sorry to bother you, ",
    "I need help. ", "Hey team, ", "Dear support, ",
)  # fmt: skip
CLOSINGS = (
    "", " Thanks!", " Please advise.", " It is rather urgent.", " My account is {mail}.",
    " I have been a customer since {year}.", " Can you check?", " Best regards.",
)  # fmt: skip

TOPICS: dict[str, tuple[str, ...]] = {
    "damaged goods": (
        "my parcel arrived broken and I want my money back",
        "the lamp from order {id} came with a cracked shade, how do I get a refund",
        "half of the plates are in pieces, please refund the damaged items",
        "I received a damaged table, can I have a refund for order {id}",
    ),
    "delivery date": (
        "when will order {id} be delivered",
        "where is my parcel, the delivery was promised for {day}",
        "has order {id} shipped already and which delivery date can I expect",
        "tracking number {id} has not moved, on what date does it arrive",
    ),
    "account deletion": (
        "please delete my account and all my data",
        "how can I have my account erased for good",
        "I want you to remove my account and everything you store about me",
        "close and delete the account {mail}",
    ),
    "invoice": (
        "I need an invoice with our VAT number for order {id}",
        "the invoice of {day} shows the wrong company address",
        "could you send the invoice for {id} again as a PDF",
        "our accountant asks for a corrected invoice",
    ),
    "stock": (
        "is the {colour} chair in stock in size {n}",
        "when will the {colour} sofa be available again",
        "do you have {n} of the {colour} stools in your warehouse",
        "is there any {colour} shelf left in stock",
    ),
    "catalogue": (
        "list all products that you sell with their prices",
        "give me the complete catalogue of desks",
        "show every lamp in the shop with price and size",
        "what products do you have, all of them please",
    ),
    "password": (
        "I cannot log in, the password reset mail never comes",
        "reset my password for {mail}",
        "the login page says that my password is wrong",
        "how do I change my password",
    ),
    "discount": (
        "does the voucher SAVE{n} still work",
        "my discount code was not applied to order {id}",
        "do students get a discount",
        "can I combine two vouchers in one purchase",
    ),
    "warranty": (
        "how long is the warranty on mattresses",
        "the drawer of my desk is stuck, does the warranty cover it",
        "is a warranty repair free of charge after {n} months",
        "I lost the warranty card for my wardrobe",
    ),
    "opening hours": (
        "when does the shop in {town} open on Sundays",
        "what are your opening hours in {town}",
        "is the showroom in {town} open on {day}",
        "until what time is the {town} store open",
    ),
}
COLOURS = ("red", "blue", "oak", "walnut", "grey", "white", "green")
TOWNS = ("Leeds", "Hull", "York", "Derby", "Bath", "Truro")


class Plant(NamedTuple):
    """A planted problem."""

    name: str
    kind: str
    topic: str | None
    """Its questions; None for any."""
    share: float
    """Of all traces."""

    @property
    def by_topic(self) -> bool:
        """Whether its questions alone make it, and no message."""
        return self.kind not in ("error", "low_score", "loop")


PLANTS = (
    Plant("lookup fails", "error", None, 0.030),
    Plant("damaged goods disliked", "negative_feedback", "damaged goods", 0.025),
    Plant("deletion refused", "refusal", "account deletion", 0.020),
    Plant("stock loop", "loop", "stock", 0.018),
    Plant("catalogue cut", "cut_off", "catalogue", 0.015),
    Plant("invoice urgency", "low_score", "invoice", 0.020),
    Plant("delivery asked again", "retry", "delivery date", 0.020),
    Plant("password abandoned", "abandonment", "password", 0.012),
)
RETURNS = "lookup fails"
DRIFTS = "damaged goods disliked"

COMPLAINTS = (
    (
        "It told me to send the broken item back, I never got the refund",
        "wrong about refunds for damaged goods",
        "no refund although the item was damaged",
    ),
    (
        "Says that I must pay the return of the damaged item before a refund",
        "refund for damaged goods is refused with a return label I have to pay",
        "why do I pay postage for a broken item, give me the refund",
    ),
    (
        "Return label costs for broken items, and the refund is only a voucher",
        "offers a voucher for damaged goods where I asked for a refund",
        "a voucher is no refund for a broken table",
    ),
)
"""By day: the words drift."""


class TrafficTrace(NamedTuple):
    """A simulated trace."""

    records: list[SpanRecord]
    feedback: list[Feedback]
    score: Score | None
    plant: str
    """Name of the planted problem; empty for none."""
    trace_id: str


class Traffic:
    """Draws traces.

    Args:
        seed: Seed.
        noise: Share of traces that fail at random.
    """

    def __init__(self, seed: int, noise: float) -> None:
        self._random = random.Random(seed)
        self._noise = noise
        self._number = seed * 1_000_000

    def day(
        self, count: int, begin: float, day: int, without: Sequence[str] = ()
    ) -> list[TrafficTrace]:
        """The traces of a day, oldest first; some problems are fixed and do not occur."""
        plants = [plant for plant in PLANTS if plant.name not in without]
        times = sorted(begin + self._random.random() * DAY_S * 0.9 for _ in range(count))
        return [self._trace(plants, at, day) for at in times]

    def _trace(self, plants: Sequence[Plant], at: float, day: int) -> TrafficTrace:
        draw = self._random.random()
        for plant in plants:
            if draw < plant.share:
                return self._made(plant.kind, plant.topic, at, day, plant.name)
            draw -= plant.share
        topic = self._random.choice(sorted(TOPICS))
        if self._random.random() < self._noise:
            kind = self._random.choice([plant.kind for plant in PLANTS])
            # By chance the same failure at the same questions: it belongs to that problem.
            same = [p.name for p in plants if p.topic == topic and p.kind == kind and p.by_topic]
            return self._made(kind, topic, at, day, "", same[0] if same else "")
        return self._made("", topic, at, day, "")

    def _question(self, topic: str) -> str:
        pick = self._random.choice
        text = pick(OPENINGS) + pick(TOPICS[topic]) + pick((".", "?", "")) + pick(CLOSINGS)
        return text.format(
            id=f"{pick('ABCK')}{self._random.randrange(10**5)}",
            mail=f"user{self._random.randrange(10**4)}@example.org",
            year=2000 + self._random.randrange(26),
            day=pick(("Monday", "Tuesday", "12 May", "3 June", "Friday")),
            colour=pick(COLOURS),
            n=self._random.randrange(2, 30),
            town=pick(TOWNS),
        )

    def _made(
        self, kind: str, topic: str | None, at: float, day: int, plant: str, same: str = ""
    ) -> TrafficTrace:
        self._number += 1
        trace_id = f"{self._number:032x}"
        question = self._question(topic or self._random.choice(sorted(TOPICS)))
        start = int(at * 1e9)
        conversation = f"talk-{self._number}"
        root: dict[str, Any] = {
            "ratchet.input": question,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": conversation,
        }
        answer = self._random.choice(
            ("Certainly. Here is what I found.", "It is on its way.", "Yes, that is possible.")
        )
        tools: list[tuple[str, dict[str, Any], str, str]] = []
        feedback: list[Feedback] = []
        score: Score | None = None
        status, message, finish = "ok", "", "stop"
        is_planted = bool(plant)
        match kind:
            case "error":
                order = f"B{self._random.randrange(10**5)}"
                message = (
                    f"OrderNotFound: no order {order} in the archive"
                    if is_planted
                    else self._odd_error()
                )
                tool = "lookup_order" if is_planted else self._random.choice(_TOOLS)
                tools.append((tool, {"order": order}, "error", message))
                status = "error"
            case "negative_feedback":
                said = self._random.choice(COMPLAINTS[min(day, 2)]) if is_planted else ""
                said = said or self._odd_comment()
                feedback.append(self._feedback("thumbs", trace_id, 0.0, said, at))
            case "refusal":
                answer = "I'm sorry, but I can't help with that request."
            case "loop":
                arguments = {"item": f"{self._random.choice(COLOURS)} chair"}
                tool = "check_stock" if is_planted else self._random.choice(_TOOLS)
                tools += [(tool, arguments, "ok", "")] * self._random.randrange(4, 8)
            case "cut_off":
                finish = "length"
                answer = "Here are all of our products: 1. Desk Oslo, 2. Desk"
            case "low_score":
                field = "urgency" if is_planted else self._random.choice(("team", "tone", "lang"))
                values = self._random.sample(("high", "low", "normal", "none"), 2)
                score = Score(
                    evaluator="json_match",
                    version="1",
                    value=0.2 + 0.2 * self._random.random(),
                    rationale=f"{field}: expected {values[0]!r}, got {values[1]!r}",
                )
            case "retry" | "abandonment":
                feedback.append(self._feedback(kind, trace_id, None, "", at))
            case _:
                pass
        root["ratchet.output"] = answer
        records = [
            self._span(trace_id, "0", None, "support", start, 900, status, message, root),
            self._span(
                trace_id,
                "1",
                "0",
                "chat small-model",
                start + 10**6,
                700,
                "ok",
                "",
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "small-model",
                    "gen_ai.response.finish_reasons": [finish],
                    "gen_ai.usage.input_tokens": 200,
                    "gen_ai.usage.output_tokens": 40,
                },
            ),
        ]
        for place, (tool, arguments, ended, why) in enumerate(tools):
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.arguments": arguments,
            }
            records.append(
                self._span(
                    trace_id, f"{2 + place:x}", "0", f"execute_tool {tool}",
                    start + (2 + place) * 10**6, 10, ended, why, attributes,
                )
            )  # fmt: skip
        return TrafficTrace(records, feedback, score, plant or same, trace_id)

    def _odd_error(self) -> str:
        pick = self._random.choice
        return f"{pick(_ODD)} {pick(_ODD)} {pick(_ODD)} {pick(_ODD)} {pick(_ODD)}"

    def _odd_comment(self) -> str:
        pick = self._random.choice
        return "" if self._random.random() < 0.5 else " ".join(pick(_ODD) for _ in range(6))

    def _feedback(
        self, kind: Any, trace_id: str, value: float | None, comment: str, at: float
    ) -> Feedback:
        return Feedback(
            id=f"f-{trace_id}", kind=kind, value=value, trace_id=trace_id, comment=comment,
            created_at=at,
        )  # fmt: skip

    def _span(
        self, trace_id: str, id: str, parent: str | None, name: str, start: int, ms: int,
        status: Any, message: str, attributes: dict[str, Any],
    ) -> SpanRecord:  # fmt: skip
        events: tuple[SpanEvent, ...] = ()
        return SpanRecord(
            agent=AGENT,
            span=Span(
                trace_id=trace_id,
                span_id=id.rjust(16, "0"),
                parent_id=None if parent is None else parent.rjust(16, "0"),
                name=name,
                start_ns=start,
                end_ns=start + ms * 10**6,
                status=status,
                message=message,
                attributes=attributes,
                events=events,
            ),
        )


_TOOLS = ("search_help", "create_ticket", "translate", "get_prices")
_ODD = (
    *("socket", "reset", "parse", "token", "comma", "bracket", "quota", "database", "column"),
    *("migration", "timeout", "peer", "handshake", "certificate", "expired", "null", "pointer"),
    *("encoding", "surrogate", "overflow", "recursion", "thread", "deadlock", "worker", "memory"),
    *("disk", "index", "cache", "stale", "mirror", "region", "gateway", "header", "cookie"),
    *("session", "redirect", "proxy", "wrong", "slow", "rude", "boring", "funny", "answer"),
    *("price", "colour", "tone", "long", "short", "polite", "confusing", "strange", "late"),
)
"""Words of failures at random."""
