"""The coach answers the real prompts of the peers, where they are installed for the benchmarks.

Nothing of theirs is kept here: their own code renders their prompts, in their own environments.
"""

from __future__ import annotations

import json
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.simulator import asking, coach
from tests.simulator.evidence import advised_in, found_in
from tests.simulator.reading import read
from tests.simulator.shown import shown

BENCH = Path(__file__).parents[2] / ".bench"
PROMPT = "You are a booking assistant for {office}. Help people with meeting rooms."

WELL = "It went well."

AGENTLIGHTNING = """
import importlib.util, poml
from pathlib import Path
# Found and not imported: the whole of it takes ten seconds.
home = Path(importlib.util.find_spec("agentlightning").origin).parent

def render(given, failure):
    run = {"status": "succeeded", "final_reward": 0.2,
           "messages": [*given["messages"], {"grader": failure}],
           "spans": [{"name": "message", "attributes": {"message": failure}}]}
    context = {"experiments": [run], "prompt_template": given["prompt"],
               "critique": "- The room must have at least as many seats as people."}
    files = sorted((home / "algorithm" / "apo" / "prompts").glob("*.poml"))
    return {file.stem: poml.poml(file, context=context, format="openai_chat")["messages"]
            for file in files}
"""

GEPA = """
from gepa.strategies.instruction_proposal import InstructionProposalSignature as Signature

def render(given, failure):
    record = {"Inputs": given["request"], "Generated Outputs": "A101", "Feedback": failure}
    text = Signature.prompt_renderer({"current_instruction_doc": given["prompt"],
        "dataset_with_feedback": [record], "prompt_template": None})
    return {"reflection": [{"role": "user", "content": text}]}
"""

OPENEVOLVE = """
from openevolve.config import PromptConfig
from openevolve.prompt.sampler import PromptSampler

def render(given, failure):
    found = {}
    for name, diff in (("diff", True), ("rewrite", False)):
        built = PromptSampler(PromptConfig()).build_prompt(
            current_program=given["prompt"], parent_program=given["prompt"],
            program_metrics={"combined_score": 0.5}, previous_programs=[], top_programs=[
                {"id": "a", "code": "Be kind.", "metrics": {"combined_score": 0.5}}],
            inspirations=[], language="text", evolution_round=1, diff_based_evolution=diff,
            program_artifacts={"feedback": failure}, feature_dimensions=["complexity"])
        found[name] = [{"role": "system", "content": built["system"]},
                       {"role": "user", "content": built["user"]}]
    return found
"""

PRINT = """
import json, sys
given = json.load(sys.stdin)
print(json.dumps({failure: render(given, failure) for failure in given["failures"]}))
"""


@lru_cache
def rendered(peer: str) -> dict[str, dict[str, Any]]:
    """What a peer asks its coach, by what is told of a rollout and by the name of its template."""
    python = BENCH / f"prompt-{peer}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{peer} is not installed: python benchmarks/prompt_search.py builds it")
    given = {
        "prompt": PROMPT,
        "request": asking.REQUEST,
        "failures": [asking.TOO_SMALL, WELL],
        "messages": [{"messages": asking.conversation("Help.", "B202")}],
    }
    ended = subprocess.run(
        [str(python), "-c", PEERS[peer] + PRINT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    found: dict[str, dict[str, Any]] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


PEERS = {"agentlightning": AGENTLIGHTNING, "gepa": GEPA, "openevolve": OPENEVOLVE}


@pytest.mark.parametrize("peer", PEERS)
def test_a_peers_own_prompts_are_answered_as_they_want(peer: str) -> None:
    for name, messages in rendered(peer)[asking.TOO_SMALL].items():
        seen = shown(messages, None)
        assert seen.current.strip() == PROMPT, name
        wants_critique = "gradient" in name
        assert (seen.form == "critique") == wants_critique, name
        answers = [coach.answer(messages, None, seed=seed) for seed in range(40)]
        understood = [
            "capacity" in (advised_in(text) if wants_critique else read(text).stated)
            for text in answers
        ]
        assert 18 < sum(understood) < 40, (name, sum(understood))
        if peer != "agentlightning":
            marked = "<<<<<<< SEARCH" if name == "diff" else "```"
            assert sum(marked in text for text in answers) > 34, name


@pytest.mark.parametrize("peer", PEERS)
def test_a_peers_instructions_are_no_evidence(peer: str) -> None:
    for name, messages in rendered(peer)[WELL].items():
        seen = shown(messages, None)
        if "edit" not in name:  # its critique is evidence
            assert not found_in(seen.rest), name
            assert not advised_in(seen.rest), name
