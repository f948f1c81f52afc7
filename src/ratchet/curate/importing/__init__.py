"""Importing: what other tools wrote down, as spans, feedback and rollouts.

A format is a file beside its siblings and a line in `FORMATS`. Readers are pure: from one value of
a file to what is to be stored. Ids follow from what the source calls a thing, or from its content,
so that reading a file twice stores it once.
"""

from ratchet.curate.importing.formats import FORMATS, Format, format_of
from ratchet.curate.importing.imported import Context, Imported, Unfit
from ratchet.curate.importing.units import Unit, read_units, rows_of, unwrapped

__all__ = [
    "FORMATS",
    "Context",
    "Format",
    "Imported",
    "Unfit",
    "Unit",
    "format_of",
    "read_units",
    "rows_of",
    "unwrapped",
]
