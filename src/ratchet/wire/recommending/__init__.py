"""Recommends how a repository is wired: in words, as questions, and as choices."""

from ratchet.wire.recommending.choosing import Option, Question
from ratchet.wire.recommending.recommend import Recommendation, Section, recommend

__all__ = ["Option", "Question", "Recommendation", "Section", "recommend"]
