"""The command `ratchet`, also as `python -m ratchet`.

The SDK's environment has the command too, so that `uv tool install 'agent-ratchet[tool]'` provides
it. Where the tool is missing, as beside an agent, the next `ratchet` on the PATH takes over: an
active environment hides it.
"""

import os
import shutil
import sys
from importlib.util import find_spec

_HANDED_OVER = "RATCHET_HANDED_OVER"
"""Environment variable: another environment's command has started this one."""


def main() -> None:
    """Run the command line."""
    handed_over = os.environ.pop(_HANDED_OVER, None)
    if find_spec("ratchet.cli") is not None:
        from ratchet.cli import main as run

        run()
    elsewhere = None if handed_over else _elsewhere()
    if elsewhere is not None:
        environ = {**os.environ, _HANDED_OVER: "1"}
        os.execve(elsewhere, [elsewhere, *sys.argv[1:]], environ)  # noqa: S606
    sys.exit(
        "error: The command line is a part of the tool, which is not installed in this environment."
        " Install it: pip install 'agent-ratchet[tool]'; or in an environment of its own:"
        " uv tool install 'agent-ratchet[tool]'"
    )


def _elsewhere() -> str | None:
    """The first `ratchet` on the PATH that is not of this environment."""
    own = os.path.dirname(sys.executable)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(
        "ratchet", path=os.pathsep.join(folder for folder in folders if folder != own)
    )


if __name__ == "__main__":
    main()
