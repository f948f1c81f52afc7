"""OpenAI Agents SDK: four agents with handoffs, whose instructions are made for each customer."""

import asyncio
from dataclasses import dataclass

from agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX

import ratchet
from agents import Agent, RunContextWrapper, Runner, handoff, set_tracing_export_api_key

ratchet.init()
set_tracing_export_api_key("")


@dataclass
class Customer:
    """Who asks, and which agent can answer."""

    confirmation: str
    flight: str
    wants: str


def book_seats(context: RunContextWrapper[Customer], agent: Agent[Customer]) -> str:
    """Instructions with one value."""
    return f"""{RECOMMENDED_PROMPT_PREFIX}
You are a seat booking agent. Use the following routine to support the customer.
1. The customer's confirmation number is {context.context.confirmation}.
2. Ask the customer what their desired seat number is.
3. Use the update seat tool to update the seat on the flight."""


def tell_status(context: RunContextWrapper[Customer], agent: Agent[Customer]) -> str:
    """Instructions with two values."""
    known = context.context
    return f"""{RECOMMENDED_PROMPT_PREFIX}
You are a flight status agent. Use the following routine to support the customer.
1. The confirmation number is {known.confirmation} and the flight number is {known.flight}.
2. Use the flight status tool to report the status of the flight."""


def specialist(name: str, instructions: object) -> Agent[Customer]:
    """An agent that another one hands over to."""
    return Agent(name=name, instructions=instructions, model="gpt-4o-mini")  # type: ignore[arg-type]


ANSWERS = (
    "You are an FAQ agent. Identify the last question asked by the customer, use the faq lookup"
    " tool to get the answer, and do not rely on your own knowledge."
)
SPECIALISTS = {
    "seat": specialist("Seat Booking Agent", book_seats),
    "status": specialist("Flight Status Agent", tell_status),
    "question": specialist("FAQ Agent", f"{RECOMMENDED_PROMPT_PREFIX}\n{ANSWERS}"),
}


def handover(wanted: str, agent: Agent[Customer]) -> object:
    """A handoff that is offered to the customers who want it."""
    return handoff(
        agent,
        # The simulator calls tools of such a name.
        tool_name_override=f"get_weather_{wanted}",
        is_enabled=lambda context, _: context.context.wants == wanted,
    )


TRIAGE = Agent(
    name="Triage Agent",
    instructions=f"{RECOMMENDED_PROMPT_PREFIX}\nYou are a helpful triaging agent. You can use your"
    " tools to delegate questions to other appropriate agents.",
    handoffs=[handover(wanted, agent) for wanted, agent in SPECIALISTS.items()],  # type: ignore[misc]
    model="gpt-4o-mini",
)


async def main() -> None:
    """Serve twelve customers."""
    for number in range(12):
        wants = list(SPECIALISTS)[number % 3]
        customer = Customer(f"LL0EZ{number}", f"FLT-{100 + number}", wants)
        result = await Runner.run(TRIAGE, f"About my {wants}", context=customer)
        print(result.last_agent.name)
    print("18 C")


asyncio.run(main())
