"""Asks a coach model about a repository: an opinion for the page, and drafts that prove nothing."""

from ratchet.wire.coaching.consultation import Consultation, consult

__all__ = ["Consultation", "consult"]
