"""`look`: an inventory of a repository. It runs nothing and decides nothing."""

from ratchet.wire.looking.inventory import Inventory
from ratchet.wire.looking.survey import look

__all__ = ["Inventory", "look"]
