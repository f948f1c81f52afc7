"""`shorten` from the command to the branch: a shorter prompt, proved no worse, in a patch."""

from __future__ import annotations

from tests.cli.conftest import CONFIG, INLINE, MakeProject

TOPICS = ("refunds", "invoices", "passwords", "deliveries")
RULES = [f"A ticket about {topic} goes to team {topic}." for topic in TOPICS]
DEAD = [f"We have been proud of our {topic} since the very first day." for topic in TOPICS]
LINES = [line for pair in zip(RULES, DEAD, strict=True) for line in pair]

AGENT = f'''
import ratchet

SYSTEM = ratchet.prompt(
    "system",
    """You sort tickets.

{chr(10).join(LINES)}
""",
)
TOPICS = {TOPICS!r}


@ratchet.agent
def sort(number):
    topic = TOPICS[number % len(TOPICS)]
    return float(f"about {{topic}} goes" in str(SYSTEM))


@ratchet.evaluator
def right(output):
    return output
'''

SETTINGS = CONFIG.replace("agent:answer", "agent:sort").replace("agent:closeness", "agent:right")
SETTINGS = SETTINGS.replace('"tune"', '"shorten"').partition("[improve.options]")[0]


def test_a_shorter_prompt_is_proved_no_worse_and_becomes_a_patch(
    make_project: MakeProject,
) -> None:
    tail = '[improve.budget]\nrollouts = 400\n[[guardrails]]\nmetric = "latency"\noff = true\n'
    project = make_project(agent=AGENT, config=SETTINGS + tail + INLINE)
    shown = project.ratchet("improve").stdout
    words = " ".join(shown.split())
    assert "The prompts are 58 % shorter: about 48 tokens instead of 115" in words
    outcome = project.json("improve")
    assert outcome["verdict"] == "promote", outcome["message"]
    assert str(outcome["message"]).startswith("Proved no worse, within a margin of")
    patched = project.git("show", f"{outcome['branch']}:agent.py")
    assert [rule in patched for rule in RULES] == [True] * 4
    assert [text in patched for text in DEAD] == [False] * 4
