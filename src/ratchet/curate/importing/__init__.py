"""Importing: what other tools wrote down, as spans, feedback and rollouts.

A format is a file beside its siblings and a line in `FORMATS`. Readers are pure: from one value of
a file to what is to be stored. Ids follow from what the source calls a thing, or from its content,
so that reading a file twice stores it once.
"""

from ratchet.curate.importing.file_values import FileValue, read_values, rows_of, unwrapped
from ratchet.curate.importing.formats import FORMATS, Format, format_of
from ratchet.curate.importing.records import FormatMismatch, ImportContext, ImportedRecords

__all__ = [
    "FORMATS",
    "FileValue",
    "Format",
    "FormatMismatch",
    "ImportContext",
    "ImportedRecords",
    "format_of",
    "read_values",
    "rows_of",
    "unwrapped",
]
