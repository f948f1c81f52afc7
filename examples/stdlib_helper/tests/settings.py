"""The settings that the tests state, so that none depends on where the source's knobs stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ratchet import Params
from ratchet.bind import Binding, bound, declarations

from stdlib_helper.scoring import Settings

# Nothing on: every part of a document counts the same, and every word of a question.
PLAIN = Settings(
    name_weight=1.0,
    signature_weight=1.0,
    module_weight=1.0,
    summary_weight=1.0,
    details_weight=1.0,
    members_weight=1.0,
    k1=1.2,
    b=0.0,
    idf_power=0.0,
    stem=False,
    split_names=False,
    stop_words=False,
    ngram="none",
    ngram_weight=1.0,
    synonym_weight=0.0,
    exact_name_bonus=0.0,
    coverage_bonus=0.0,
)

# Everything on, and no two numbers alike, so that knobs that are mixed up are noticed.
FULL = Settings(
    name_weight=4.0,
    signature_weight=0.8,
    module_weight=1.1,
    summary_weight=2.5,
    details_weight=0.6,
    members_weight=0.3,
    k1=1.6,
    b=0.4,
    idf_power=1.2,
    stem=True,
    split_names=True,
    stop_words=True,
    ngram="char3",
    ngram_weight=1.5,
    synonym_weight=0.25,
    exact_name_bonus=2.0,
    coverage_bonus=3.0,
)


@contextmanager
def stated(settings: Settings) -> Iterator[None]:
    """Runs the agent under these values, as a trial of the tuner would."""
    declared = declarations()["retrieval"].resource
    assert isinstance(declared, Params)
    params = Params(declared.space, settings._asdict())
    with bound(Binding(resources={"retrieval": params})):
        yield
