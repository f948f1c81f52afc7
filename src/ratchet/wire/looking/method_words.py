"""Words of methods' names: which say that a call acts, reads, or sets something up."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ASYNC = re.compile(
    r"^a(?=(?:add|insert|delete|upsert|update|put|send|create|set|save|store|write|index)(?:_|$))"
)
_DOING = frozenset(
    {
        *("create", "insert", "add", "append", "update", "upsert", "put", "patch"),
        *("post", "delete", "remove", "destroy", "drop", "send", "produce", "publish"),
        *("upload", "write", "save", "commit", "push", "merge", "move", "rename"),
        *("archive", "share", "invite", "submit", "cancel", "capture", "refund"),
        *("charge", "pay", "transfer", "buy", "sell", "order", "trade", "reply"),
        *("comment", "like", "follow", "retweet", "tweet", "ban", "kick", "pin", "react"),
        *("start", "stop", "terminate", "launch", "deploy", "restart", "invoke"),
        *("trigger", "enqueue", "modify", "replace", "assign", "transition", "click"),
        *("fill", "goto", "trash", "batch", "quick", "set", "hset", "hmset", "setex"),
        *("incr", "decr", "lpush", "rpush", "sadd", "zadd", "xadd", "expire", "rpop"),
        *("lpop", "hincrby", "mset", "output", "store", "link", "withdraw", "schedule"),
        *("import", "close", "clear", "edit", "unlink", "bulk", "transact", "kill"),
        *("act", "spawn", "fork", "exec", "press", "type", "purchase", "unfollow"),
        *("leave", "join", "subscribe", "say", "respond", "answer", "ingest", "notify"),
        *("broadcast", "purge", "persist", "revoke", "clone"),
    }
)
READING = frozenset(
    {
        *("get", "list", "search", "find", "fetch", "read", "retrieve", "query"),
        *("describe", "count", "is", "has", "load", "iter", "select", "all", "filter"),
        *("first", "download", "scan", "head", "show", "view", "stream", "poll"),
        *("receive", "lookup", "aggregate"),
    }
)
SETTING_UP = re.compile(
    r"^create\w*_?(?:client|engine|pool|sessionmaker)$|^(?:create|add|set|get|start|import|store)_?(?:client|session|connection|engine|pool|driver|channel|async_client"
    r"|consumer|producer|subscription_path|handler|listener|middleware|command|cog|cors|router|route|logger|header|headers"
    r"|hook|option|options|argument|callback|transport|server|adapter|error_handler|event_listener|field|credentials?"
    r"|default_headers?|timeout|default_timeout|auth|cookie|polling|webhook|page|context|event_loop|tenant_id)s?$"
    r"|^(?:invoke_model\w*|invokeModel\w*|invoke_agent\w*|write_timeout|start_polling|drop_pending_updates|set_page_config)$",
    re.IGNORECASE,
)
"""Methods that set something up."""


def words_of(name: str) -> list[str]:
    """Words of a name in either case: `sendMail`, `send_mail`."""
    return [word.lower() for part in name.split("_") for word in _WORDS.findall(part)]


def awaited(method: str) -> str:
    """A method's name without the `a` of what is awaited: `ainsert`."""
    return _ASYNC.sub("", method)


def says_that_it_acts(method: str) -> bool:
    """Whether a method's name has a word that acts, and does not begin with one that reads."""
    words = words_of(awaited(method))
    return bool(words) and words[0] not in READING and not _DOING.isdisjoint(words)
