"""Field types shared by several requests, with their constraints."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

MAX_ITEMS = 5_000
"""Maximum number of items in one request."""

RolloutId: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,200}$")]
Name: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
"""Name of an agent, a queue or a resource."""
QueueName: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:@%/-]{1,300}$")]
Queues: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:@%/-]{1,300}(/\*)?$")]
"""A queue; or, with a trailing /*, every queue whose name has that prefix."""
Version: TypeAlias = Annotated[str, Meta(max_length=100)]
ShortText: TypeAlias = Annotated[str, Meta(max_length=2_000)]
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Fence: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
LeaseS: TypeAlias = Annotated[float, Meta(ge=1, le=86_400)]
WaitS: TypeAlias = Annotated[float, Meta(ge=0, le=60)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]
Cursor: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]{1,18}$")]
UnixTime: TypeAlias = Annotated[float, Meta(ge=0, le=4e9)]
"""Unix seconds."""
JsonObject: TypeAlias = dict[str, Any]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body or query; unknown keys are refused."""


class Page(Request, frozen=True, kw_only=True):
    """Paging parameters."""

    limit: Limit = 100
    cursor: Cursor | None = None
    """The previous page's `next_cursor`."""
