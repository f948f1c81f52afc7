"""`python -m room_booking REQUEST`: which room to book."""

from __future__ import annotations

import asyncio
import sys

from .agent import book


def main() -> int:
    """Answer one request."""
    if len(sys.argv) != 2:
        print('usage: python -m room_booking "REQUEST"', file=sys.stderr)
        return 2
    print(asyncio.run(book(sys.argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
