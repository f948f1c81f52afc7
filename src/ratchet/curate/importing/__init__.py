"""Importers: convert recordings of other tools to spans, feedback and rollouts.

Each format is a module here and an entry in `FORMATS`. Readers are pure functions from one value of
a file to the records to store. Ids derive from the source's ids or from content, so that importing
a file twice stores it once.
"""

from ratchet.curate.importing.file_values import FileValue, read_values, rows_of, unwrapped
from ratchet.curate.importing.formats import FORMATS, Format, format_of, nearest_format
from ratchet.curate.importing.named_fields import (
    has_named_fields,
    keys_of,
    with_standard_names,
)
from ratchet.curate.importing.records import (
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    without_not_finite,
)
from ratchet.curate.importing.trajectories import REWARD_KEYS

__all__ = [
    "FORMATS",
    "REWARD_KEYS",
    "FileValue",
    "Format",
    "FormatMismatch",
    "ImportContext",
    "ImportedRecords",
    "format_of",
    "has_named_fields",
    "keys_of",
    "nearest_format",
    "read_values",
    "rows_of",
    "unwrapped",
    "with_standard_names",
    "without_not_finite",
]
