"""Refinement: conclusions about tasks from candidates' results on them."""

from ratchet.curate.refinement.acceptance import accept, core_dataset, select
from ratchet.curate.refinement.live_inputs import inputs_of_traces, live_inputs
from ratchet.curate.refinement.proposals import Refinement, RefinementProposal, refine
from ratchet.curate.refinement.results import Results, read_results, results_of

__all__ = [
    "Refinement",
    "RefinementProposal",
    "Results",
    "accept",
    "core_dataset",
    "inputs_of_traces",
    "live_inputs",
    "read_results",
    "refine",
    "results_of",
    "select",
]
