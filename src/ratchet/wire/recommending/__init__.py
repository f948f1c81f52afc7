"""Recommends how a repository is wired: in words, as questions, and as choices."""

from ratchet.wire.recommending.choosing import Option, Question
from ratchet.wire.recommending.recommend import PageSection, Recommendation, recommend

__all__ = ["Option", "PageSection", "Question", "Recommendation", "recommend"]
