"""Redactor: removes secrets and personal data from spans, feedback and text."""

from __future__ import annotations

import ipaddress
import json
import logging
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ratchet.observe.dialects.names import (
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    SYSTEM_INSTRUCTIONS,
    TOOL_DEFINITIONS,
)
from ratchet.observe.redaction import content
from ratchet.observe.redaction.config import RedactionRules, active_rules
from ratchet.observe.redaction.fields import (
    NUMBERS_TOO,
    FieldPath,
    Fields,
    checked_keys,
    path_of,
    plain_name,
)
from ratchet.observe.redaction.finding import FAILURE, REMOVED, Finder, is_mark, marks_in
from ratchet.observe.redaction.memory import CLEAN, RedactionMemory
from ratchet.observe.redaction.patterns import Patterns
from ratchet.observe.redaction.rules import FIELD
from ratchet.observe.redaction.rules.card import is_card
from ratchet.types import ConfigError, Feedback, Outcome, Span, SpanEvent, SpanRecord, json_items

KEY_VARIABLE = "RATCHET_REDACTION_KEY"
"""Environment variable with the secret for pseudonyms."""

REDACTION_ERROR = "ratchet.redaction.error"
"""Attribute of a span whose content was removed because redaction failed; holds the error type."""

MAX_JSON_DEPTH = 64
"""Maximum depth at which JSON is parsed; deeper values are searched as text."""

MIN_KEY_LENGTH = 16
"""Minimum length of the secret for pseudonyms."""

MAX_KEYS_REMEMBERED = 4_096
"""Cache size: names of attributes and of spans that hold no secrets."""

MAX_NAME_LENGTH = 200
"""Span names longer than this are not cached."""

MAX_TEXTS_REMEMBERED = 2_048
MAX_REMEMBERED_LENGTH = 8_192
"""Cache of attribute texts without secrets: agents repeat instructions, tools and earlier
messages with each call."""

MIN_LIST_LENGTH = 1_024
"""Minimum length of a list that is redacted item by item, in characters: agents resend the history
with each call, and each of its messages is searched once."""

MAX_OBJECTS = 200
"""Maximum number of places in prose at which a JSON object is looked for."""

MIN_REMEMBERED_LENGTH = 256
"""Minimum length of a text within a value that is searched once, in characters: a tool's result is
in the tool's span and in messages."""

# Messages, tools and instructions.
_LISTS = (INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_DEFINITIONS, SYSTEM_INSTRUCTIONS)

_LARGE = 10**12
"""Smaller numbers cannot be card numbers."""

_HARMLESS = frozenset({float, bool, type(None)})
_NAMES_IN_JSON = re.compile(r'"\s*:')
ACT_SUBJECT = "ratchet.act.subject"
"""What a denied act was aimed at: an address there is a host that the owner may allow."""

_HOST = "{host}"

_SCHEMA = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "description"})
_EMPTY = re.compile(r"\s*|[*•x.]+|<[^>]*>|\$?\{+[^}]*\}+|none|null|true|false", re.IGNORECASE)

_log = logging.getLogger(__name__)


class _TooDeep(Exception):
    pass


class Redactor:
    """Redacts spans and text by rules. Thread-safe.

    Its methods never raise: if redaction of a span fails, its content is removed.

    Args:
        rules: What to redact; all built-in rules when left out.
        key: Secret for pseudonyms; the same secret gives equal values the same pseudonym.

    Raises:
        ConfigError: A rule is unknown, a pattern is refused, or pseudonyms have no key.
    """

    def __init__(self, rules: RedactionRules | None = None, *, key: bytes = b"") -> None:
        self.rules = rules = rules or RedactionRules()
        if rules.pseudonyms and len(key) < MIN_KEY_LENGTH:
            raise ConfigError(
                f"[redaction] pseudonyms need a secret of at least {MIN_KEY_LENGTH} characters.",
                hint=f"Set {KEY_VARIABLE}, to the same value wherever equal values must stay "
                "equal.",
            )
        hold = active_rules(rules.rules)
        self._fields = Fields(checked_keys(rules.keys), usual=FIELD in hold)
        names = tuple(filter(None, self._fields.names))
        # A key such as `headers.*` has no literal name to search for: then all JSON is parsed.
        self._follows_all = len(names) < len(rules.keys)
        self._finder = Finder(
            hold,
            names,
            Patterns(rules.patterns),
            rules.allow,
            key if rules.pseudonyms else b"",
        )
        self._clean_keys: set[str] = set()
        self._clean_names: set[str] = set()
        self._clean_texts: set[str] = set()
        self._memory = RedactionMemory()

    def record(self, record: SpanRecord) -> SpanRecord:
        """The record with its span redacted; the same object if nothing was found."""
        span = self.span(record.span)
        return record if span is record.span else msgspec.structs.replace(record, span=span)

    def span(self, span: Span) -> Span:
        """The span redacted; the same object if nothing was found."""
        try:
            if self.rules.enabled:
                span = self._span(span)
            return span if self.rules.capture_content else content.without_content(span)
        except Exception as error:  # a defect must not let content through
            _log.exception("A span could not be redacted; its content is not kept.")
            bare = content.without_content(msgspec.structs.replace(span, name=""))
            attributes = {**bare.attributes, REDACTION_ERROR: type(error).__name__}
            return msgspec.structs.replace(bare, attributes=attributes)

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome with spans and error redacted; what evaluators read is unchanged."""
        spans = tuple(map(self.span, outcome.spans))
        error = self.text(outcome.error)
        same = all(map(operator.is_, spans, outcome.spans))
        if error is outcome.error and same:
            return outcome
        return msgspec.structs.replace(outcome, error=error, spans=spans)

    def feedback(self, feedback: Feedback) -> Feedback:
        """Feedback with its comment and content redacted."""
        try:
            if not self.rules.capture_content:
                return content.feedback_without_content(feedback)
            if not self.rules.enabled:
                return feedback
            return msgspec.structs.replace(
                feedback,
                comment=self._text(feedback.comment),
                content=self._value(feedback.content, (), 0),
            )
        except Exception:  # as above
            _log.exception("Feedback could not be redacted; its content is not kept.")
            return content.feedback_without_content(feedback)

    def text(self, text: str) -> str:
        """The text redacted; the same object if nothing was found."""
        if not self.rules.enabled:
            return text
        try:
            return self._text(text)
        except Exception as error:  # as above
            _log.exception("A text could not be redacted; it is not kept.")
            return f"{FAILURE}{type(error).__name__.lower()[:24]}]"

    def removed(self, text: str) -> dict[str, set[str]]:
        """What each mark in the redacted text stands for; a mark in the original stands for
        itself."""
        secrets_by_mark = {mark: {mark} for mark in marks_in(text)}
        if not self.rules.enabled:
            return secrets_by_mark
        collecting = REMOVED.set(secrets_by_mark)
        try:
            self._searched(text, (), 0)  # not from memory, which keeps no secret
        finally:
            REMOVED.reset(collecting)
        return secrets_by_mark

    def value(self, value: Any) -> Any:
        """JSON data redacted; the same object if nothing was found."""
        if not self.rules.enabled:
            return value
        try:
            return self._value(value, (), 0)
        except Exception as error:  # as above
            _log.exception("A value could not be redacted; it is not kept.")
            return f"{FAILURE}{type(error).__name__.lower()[:24]}]"

    def _span(self, span: Span) -> Span:
        changes: dict[str, Any] = {}
        attributes = self._attributes(span.attributes)
        if attributes is not span.attributes:
            changes["attributes"] = attributes
        if span.events:
            events = tuple(map(self._event, span.events))
            if any(new is not old for new, old in zip(events, span.events, strict=True)):
                changes["events"] = events
        name, message = self._name(span.name), span.message
        host = span.attributes.get(ACT_SUBJECT)
        if isinstance(host, str) and _is_address(host):  # the message says how to allow it
            without_host = message.replace(host, _HOST)
            message = self._text(without_host).replace(_HOST, host)
        else:
            message = self._text(message)
        if name is not span.name:
            changes["name"] = name
        if message is not span.message:
            changes["message"] = message
        return msgspec.structs.replace(span, **changes) if changes else span

    def _name(self, name: str) -> str:
        """The name of a span or a field redacted; cached, as names recur."""
        if name in self._clean_names:
            return name
        new = self._finder.cleaned(name)
        if new is name and len(name) <= MAX_NAME_LENGTH:
            if len(self._clean_names) >= MAX_KEYS_REMEMBERED:
                self._clean_names.clear()
            self._clean_names.add(name)
        return new

    def _event(self, event: SpanEvent) -> SpanEvent:
        attributes, name = self._attributes(event.attributes), self._text(event.name)
        if attributes is event.attributes and name is event.name:
            return event
        return SpanEvent(name, event.time_ns, attributes)

    def _attributes(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes redacted; the same dictionary if nothing was found."""
        lists: dict[str, str] = {}
        for key in _LISTS:
            value = attributes.get(key)
            if value.__class__ is str and len(value) >= MIN_LIST_LENGTH:
                listed = self._list(key, value)
                if listed is not None:
                    lists[key] = listed
        unlisted = attributes
        if lists:
            unlisted = {key: value for key, value in attributes.items() if key not in lists}
        if self._are_clean(unlisted):
            if not lists or all(new is attributes[key] for key, new in lists.items()):
                return attributes
            return {**attributes, **lists}
        changed = False
        redacted: dict[str, Any] = {}
        for key, value in attributes.items():
            new = lists[key] if key in lists else self._attribute(key, value)
            name = key if key in self._clean_keys else self._finder.cleaned(key)
            changed = changed or new is not value or name is not key
            redacted[name] = new
        return redacted if changed else attributes

    def _attribute(self, key: str, value: Any) -> Any:
        if key == ACT_SUBJECT and _is_address(value):
            return value
        path = path_of(key)
        # Not cached if a project names fields: then the result depends on the key.
        remembers = value.__class__ is str and not self.rules.keys
        if remembers and value in self._clean_texts and not self._fields.is_secret(path):
            return value
        try:
            new = self._value(value, path, 0)
        except _TooDeep:
            return self._finder.cleaned(_encode(value).decode())
        if remembers and new is value and not self._fields.is_secret(path):
            self._remember((value,))
        return new

    def _list(self, key: str, value: str) -> str | None:
        """Redact a JSON list of objects, each only once; None if the value is not such a list."""
        path = path_of(key)
        json_list = None if self._fields.is_secret(path) else json_items.split(value)
        if json_list is None or not all(item[:1] == b"{" for item in json_list.items):
            return None
        keys = self._memory.keys(json_list.items, ".".join(path) if self.rules.keys else "")
        results = [self._memory.get(key) for key in keys]
        new = [at for at, result in enumerate(results) if result is None]
        if new:
            # As in `_are_clean`, one search in all texts is faster than one in each.
            together = b"\n".join(json_list.items[at] for at in new).decode()
            may = self._follows_all or self._finder.may_contain_secret(together)
            for at in new:
                results[at] = result = self._item(json_list.items[at], path) if may else CLEAN
                self._memory.put(keys[at], result)
        if not any(results):
            return value
        items = [
            redacted_item or item.decode()
            for redacted_item, item in zip(results, json_list.items, strict=True)
        ]
        return json_items.join(json_list.separator, items)

    def _item(self, item: bytes, path: FieldPath) -> str:
        """An item of a list redacted; `CLEAN` if nothing was found."""
        text = item.decode()
        new = self._searched(text, path, 1)
        return CLEAN if new is text else new

    def _remember(self, texts: Iterable[str]) -> None:
        """Cache texts in which nothing was found."""
        if len(self._clean_texts) > MAX_TEXTS_REMEMBERED:
            self._clean_texts.clear()
        self._clean_texts.update(text for text in texts if len(text) <= MAX_REMEMBERED_LENGTH)

    def _are_clean(self, attributes: Mapping[str, Any]) -> bool:
        """Whether the prefilter finds nothing in the attributes."""
        if self._follows_all or not (
            self._clean_keys.issuperset(attributes) or self._are_clean_keys(attributes)
        ):
            return False
        # One search in all texts is faster than one in each.
        texts: list[str] = []
        clean_texts = self._clean_texts
        for value in attributes.values():
            kind = value.__class__
            if kind is str:
                if value not in clean_texts:
                    texts.append(value)
            elif kind is int:
                if value > _LARGE:
                    return False
            elif kind not in _HARMLESS:
                texts.append(_encode(value).decode())
        if not texts:
            return True
        if self._finder.may_contain_secret("\n".join(texts)):
            return False
        self._remember(texts)
        return True

    def _are_clean_keys(self, keys: Iterable[str]) -> bool:
        """Whether neither keys nor their fields are secret; clean keys are cached."""
        for key in keys:
            if key in self._clean_keys:
                continue
            if self._fields.is_secret(path_of(key)) or self._finder.cleaned(key) is not key:
                return False
            if len(self._clean_keys) < MAX_KEYS_REMEMBERED:
                self._clean_keys.add(key)
        return True

    def _value(self, value: Any, path: FieldPath, depth: int) -> Any:
        """A value redacted; the same object if nothing was found."""
        if value is None or value is True or value is False:
            return value
        if path and self._fields.is_secret(path):
            return self._secret(value, path, depth)
        return self._inner(value, path, depth)

    def _inner(self, value: Any, path: FieldPath, depth: int) -> Any:
        """Redact a value outside secret fields."""
        kind = value.__class__
        if kind is str:
            return self._text(value, path, depth)
        if kind is int:
            is_one = value > _LARGE and "card" in self._finder.rules and is_card(str(value)[:20])
            return self._finder.mark("card", str(value)) if is_one else value
        if isinstance(value, dict):
            return self._object(value, path, depth)
        if isinstance(value, (list, tuple)):
            if depth > MAX_JSON_DEPTH:
                raise _TooDeep
            items = [self._value(inner, path, depth + 1) for inner in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else items
        return value

    def _object(self, value: dict[Any, Any], path: FieldPath, depth: int) -> dict[Any, Any]:
        if depth > MAX_JSON_DEPTH:
            raise _TooDeep
        changed = False
        redacted: dict[Any, Any] = {}
        for key, inner in value.items():
            if key == "token" and "logprob" in value:  # a word of a model's, not a secret
                new = self._inner(inner, path, depth + 1)
            else:
                new = self._value(inner, (*path, str(key)), depth + 1)
            name = self._name(key) if key.__class__ is str else key
            changed = changed or new is not inner or name is not key
            redacted[name] = new
        return redacted if changed else value

    def _secret(self, value: Any, path: FieldPath, depth: int) -> Any:
        """Redact the value of a secret field."""
        if depth > MAX_JSON_DEPTH:
            raise _TooDeep
        is_named_field = self._fields.is_named(path)
        if isinstance(value, str):
            empty = not value if is_named_field else _EMPTY.fullmatch(value)
            if empty or is_mark(value) or self._finder.allows(value):
                return value
            return self._finder.mark(FIELD, value)
        if isinstance(value, dict):
            # A JSON schema describes the field; it is not its value.
            if not is_named_field and not _SCHEMA.isdisjoint(value):
                return self._inner(value, path, depth)
            return {key: self._secret(inner, path, depth + 1) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._secret(inner, path, depth + 1) for inner in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if is_named_field or NUMBERS_TOO(plain_name(path[-1])):
                return self._finder.mark(FIELD, str(value))
            return self._inner(value, path, depth)
        return value

    def _text(self, text: str, path: FieldPath = (), depth: int = 0) -> str:
        # Not remembered if a project names fields, as above.
        if len(text) < MIN_REMEMBERED_LENGTH or self.rules.keys:
            return self._searched(text, path, depth)
        (key,) = self._memory.keys([text.encode("utf-8", "surrogatepass")])
        remembered = self._memory.get(key)
        if remembered is None:
            new = self._searched(text, path, depth)
            self._memory.put(key, CLEAN if new is text else new)
            return new
        return remembered or text

    def _searched(self, text: str, path: FieldPath, depth: int) -> str:
        if not text or not (self._follows_all or self._finder.may_contain_secret(text)):
            return text
        if text.lstrip()[:1] in ("{", "[", '"') and depth <= MAX_JSON_DEPTH:
            redacted = self._json(text, path, depth)
            if redacted is not None:
                return redacted
        if self.rules.keys and "{" in text:
            text = self._with_objects(text, path, depth)
        return self._finder.cleaned(text)

    def _with_objects(self, text: str, path: FieldPath, depth: int) -> str:
        """Prose with the JSON objects in it redacted by the project's fields."""
        pieces: list[str] = []
        copied_to = at = 0
        for _ in range(MAX_OBJECTS):
            at = text.find("{", at)
            if at < 0:
                break
            try:
                value, end = _object_at(text, at)
                new = self._value(value, path, depth + 1)
            except (ValueError, RecursionError, _TooDeep):
                at += 1
                continue
            if new is not value:
                pieces += (text[copied_to:at], _encode(new).decode())
                copied_to = end
            at = end
        return "".join([*pieces, text[copied_to:]]) if pieces else text

    def _json(self, text: str, path: FieldPath, depth: int) -> str | None:
        """Redact JSON text; None if it must be searched as plain text."""
        try:
            value = _decode(text)
            if not isinstance(value, (dict, list, str)):
                return None
            new = self._value(value, path, depth + 1)
        except (msgspec.DecodeError, RecursionError, UnicodeError, _TooDeep):
            return None
        if new is not value:
            return _encode(new).decode()
        # A duplicate name has two values in the text, of which only one was parsed.
        return text if _count(value) >= len(_NAMES_IN_JSON.findall(text)) else None


_object_at = json.JSONDecoder().raw_decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def redactor_of(rules: RedactionRules, environ: Mapping[str, str]) -> Redactor:
    """Create a project's redactor.

    Args:
        rules: What to redact.
        environ: Variables of the environment, with the secret for pseudonyms.

    Raises:
        ConfigError: As `Redactor` does.
    """
    return Redactor(rules, key=environ.get(KEY_VARIABLE, "").encode())


def _is_address(value: Any) -> bool:
    try:
        return value.__class__ is str and bool(ipaddress.ip_address(value))
    except ValueError:
        return False


def _count(value: Any) -> int:
    """Number of names in JSON data, and of what look like names in its strings."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count, value)) + sum(map(_count, value.values()))
    if isinstance(value, list):
        return sum(map(_count, value))
    return len(_NAMES_IN_JSON.findall(value)) if isinstance(value, str) else 0
