"""Proposers: draft changes of candidates without a coach, by mutating syntax trees."""

from ratchet.learn.proposers.proposer import Draft, ProposalRequest, Proposer
from ratchet.learn.proposers.syntax import SyntaxProposer

__all__ = ["Draft", "ProposalRequest", "Proposer", "SyntaxProposer"]
