"""The words of a sentence that was typed without quotes, as the one input that they are."""

from __future__ import annotations

import msgspec

from ratchet.wire.deriving.owner_input import owner_values
from ratchet.wire.recording.recording import Recording, ServiceRun

MIN_WORDS = 3
"""Two words may stand together in a prompt by chance, such as a ticker and a date."""


def quoted(recording: Recording) -> Recording | None:
    """The recording as if the sentence at the end of its command had been quoted.

    None if the command's last words did not reach the model as one text.
    """
    run = recording.run
    if isinstance(run, ServiceRun):
        return None
    texts = [sent.text for call in recording.calls for sent in call.texts if sent.role != "system"]
    words = [value.path[0] for value in owner_values(run) if value.place == "word"]
    for first in words[: 1 - MIN_WORDS]:
        assert isinstance(first, int)
        sentence = " ".join(run.argv[first:])
        if any(sentence in text for text in texts):
            argv = (*run.argv[:first], sentence)
            return msgspec.structs.replace(recording, run=msgspec.structs.replace(run, argv=argv))
    return None
