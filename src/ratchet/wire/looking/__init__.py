"""`look`: an inventory of a repository. Nothing of it is run, and nothing is decided."""

from ratchet.wire.looking.inventory import Inventory
from ratchet.wire.looking.survey import look

__all__ = ["Inventory", "look"]
