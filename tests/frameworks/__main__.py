"""`make test-frameworks`: every framework in its own environment, and one JSON line at the end."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.frameworks.environments import FOLDER, ROOT, CannotInstall, installer, python_of
from tests.frameworks.matrix import markdown, write_into
from tests.frameworks.running import Outcome, try_framework
from tests.frameworks.table import FRAMEWORKS, Framework

AT_ONCE = 2
PAGE = ROOT / "docs" / "frameworks.md"


def main() -> int:
    """Try the frameworks that are asked for; 1 when one of them lacks something."""
    asked = _arguments()
    chosen = [each for each in FRAMEWORKS if _is_wanted(each, asked)]
    print(
        f"{len(chosen)} frameworks, each in its own environment under"
        f" {FOLDER.relative_to(ROOT)}, installed by {installer()} where it is not there yet.",
        flush=True,
    )
    outcomes = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(_try, each) for each in chosen]
        for done in as_completed(running):
            outcome = done.result()
            outcomes[outcome.framework.name] = outcome
            _say(outcome)
    ordered = [outcomes[each.name] for each in chosen]
    if asked.markdown:
        print(f"\n{markdown(ordered)}\n")
    if asked.write:
        write_into(PAGE, ordered)
    passed = [outcome.framework.name for outcome in ordered if outcome.passed]
    failed = [outcome.framework.name for outcome in ordered if not outcome.passed]
    versions = {outcome.framework.name: outcome.version for outcome in ordered}
    print(json.dumps({"passed": passed, "failed": failed, "versions": versions}))
    return 1 if failed else 0


def _try(framework: Framework) -> Outcome:
    try:
        return try_framework(framework, python_of(framework))
    except CannotInstall as error:
        return Outcome(framework, "", 0.0, {}, str(error))
    except Exception as error:  # one framework must not stop the others
        return Outcome(framework, "", 0.0, {}, f"{type(error).__name__}: {error}")


def _say(outcome: Outcome) -> None:
    what = f"{outcome.framework.title} {outcome.version}, {outcome.seconds:.1f} s"
    print(f"{'ok    ' if outcome.passed else 'FAILED'} {what}", flush=True)
    if outcome.failure:
        print(f"       {outcome.failure}")
    for column, missing in outcome.missing.items():
        print(f"       {column}: {missing}")


def _is_wanted(framework: Framework, asked: argparse.Namespace) -> bool:
    if asked.only:
        return framework.name in asked.only
    return framework.fast or not asked.fast


def _arguments() -> argparse.Namespace:
    names = [each.name for each in FRAMEWORKS]
    parser = argparse.ArgumentParser(prog="make test-frameworks", description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), help=", ".join(names))
    parser.add_argument("--fast", action="store_true", help="only those that CI runs")
    parser.add_argument("--markdown", action="store_true", help="print the matrix")
    parser.add_argument(
        "--write", action="store_true", help=f"put the matrix into {PAGE.relative_to(ROOT)}"
    )
    asked = parser.parse_args()
    for name in asked.only or ():
        if name not in names:
            parser.error(f"there is no framework {name!r}; there are {', '.join(names)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
