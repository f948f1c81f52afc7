"""What a sandbox starts with: read the configuration and become what it says."""

from __future__ import annotations

import marshal
import os

from . import keeper

TYPE_CHECKING = False  # `typing` takes long to import
if TYPE_CHECKING:
    from typing import Any, NoReturn


def main(control: int, config: int) -> NoReturn:
    """Become a zygote, or run a command.

    Args:
        control: The descriptor of the control socket.
        config: The descriptor of a file that holds the marshalled configuration, which the
            process outside wrote.
    """
    with os.fdopen(config, "rb") as file:
        read: dict[str, Any] = marshal.load(file)  # noqa: S302
    os.set_inheritable(control, False)
    if read["mode"] == "command":
        from . import command

        command.run(control, read)
    from . import zygote

    if read["level"] != "bubblewrap":
        keeper.guard(control, read["scratch"])
    zygote.serve(control, read)
