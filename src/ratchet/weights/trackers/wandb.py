"""Curves at Weights & Biases, which gets only the numbers."""

from __future__ import annotations

from ratchet.types import RatchetError
from ratchet.types.extras import extra
from ratchet.weights.trackers import RunCurves

ANSWER_TIMEOUT_S = 60.0


def send(curves: RunCurves, project: str) -> str:
    """Send curves to a project; the service ignores steps that it already has.

    Raises:
        ConfigError: The package is not installed.
        RatchetError: The service does not accept them.
    """
    with extra("wandb", "Weights & Biases"):
        import wandb
    by_step: dict[int, dict[str, float]] = {}
    for step, numbers in curves.points:
        by_step.setdefault(step, {}).update(numbers)
    try:
        run = wandb.init(
            project=project,
            id=curves.name,
            name=curves.name,
            resume="allow",
            dir=str(curves.state),
            # By itself it also sends the repository, the command line and what the machine does.
            settings=wandb.Settings(
                silent=True,
                init_timeout=ANSWER_TIMEOUT_S,
                console="off",
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_meta=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
            ),
        )
        for step, numbers in sorted(by_step.items()):
            run.log(numbers, step=step)
        run.finish()
    except (wandb.Error, OSError) as error:
        raise RatchetError(
            f"Weights & Biases did not accept the curves: {error}.",
            hint="Log in (wandb login), or write them to a folder: WANDB_MODE=offline.",
        ) from None
    action = "written for" if run.settings.mode == "offline" else "sent to"
    return f"{action} Weights & Biases, as {curves.name} of {project}"
