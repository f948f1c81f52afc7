"""The rules that the help desk sorts by. The agent has to learn them."""

from __future__ import annotations

from dataclasses import dataclass

TEAMS = {
    "danger": "safety",
    "broken": "repairs",
    "late": "logistics",
    "charged": "billing",
    "refund": "billing",
    "question": "sales",
    "login": "accounts",
}
"""Which team answers what."""

PRIORITIES = {
    "danger": "P1",
    "charged": "P2",
    "broken": "P2",
    "late": "P3",
    "refund": "P3",
    "login": "P3",
    "question": "P4",
}
"""P1 before all others, P4 when there is time."""


@dataclass(frozen=True)
class Ticket:
    """What a ticket is about."""

    problem: str
    product: str | None
    """A plain noun, such as `kettle`."""
    order: int | None
    firm: bool = False
    """Whether it comes from a business customer, who is served one step sooner."""


def routed(ticket: Ticket) -> dict[str, str | None]:
    """The JSON that the help desk wants.

    A product is a plain noun in small letters, an order number is a text of its digits, and what
    a ticket does not say is null.
    """
    step = int(PRIORITIES[ticket.problem][1])
    return {
        "team": TEAMS[ticket.problem],
        "priority": f"P{max(1, step - 1) if ticket.firm else step}",
        "product": ticket.product,
        "order": None if ticket.order is None else str(ticket.order),
    }
