"""Problems of an agent: what failed in its traces, and which failures belong together."""

from ratchet.curate.problems.grouping import Grouped, group
from ratchet.curate.problems.resemblance import Background, Profile
from ratchet.curate.problems.symptoms import occurrences_of

__all__ = ["Background", "Grouped", "Profile", "group", "occurrences_of"]
