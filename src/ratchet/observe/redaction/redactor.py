"""Redactor: takes what is not to be stored out of spans, feedback and text."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

import msgspec

from ratchet.observe.redaction import content
from ratchet.observe.redaction.cut import beginning
from ratchet.observe.redaction.fields import NUMBERS_TOO, Fields, Path, parts, plain_name
from ratchet.observe.redaction.patterns import Patterns, TookTooLong
from ratchet.observe.redaction.rules import FIELD, NAMES, RULES
from ratchet.observe.redaction.rules.card import is_card
from ratchet.observe.redaction.suspicion import suspicious
from ratchet.observe.redaction.views import glance, view_of
from ratchet.types import ConfigError, Feedback, Span, SpanEvent, SpanRecord

MARK = "[redacted:"
"""What stands in the place of a secret begins with this, and goes on with the rule's name."""

FAILED = "ratchet.redaction.error"
"""Attribute of a span whose content was removed, since a defect kept it from being looked at."""

DEEPEST = 64
"""How deep JSON is followed; what is deeper is looked at as text."""

MOST_KEYS_REMEMBERED = 4_096
"""Names of attributes that are known to hold no secrets."""

MOST_ALLOWED = 200
LEAST_KEY = 16

_ENCODED = re.compile(r"[A-Za-z0-9+/_\-]{20,}={0,2}")
_LONGEST_ENCODED = 65_536
_NAMES_IN_JSON = re.compile(r'"\s*:')
_SCHEMA = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "description"})
_EMPTY = re.compile(r"\s*|[*•x.]+|<[^>]*>|\$?\{+[^}]*\}+|none|null|true|false", re.IGNORECASE)

_log = logging.getLogger(__name__)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What is redacted, as `[redaction]` of a `ratchet.toml` says it."""

    enabled: bool = True
    rules: tuple[str, ...] = ()
    """Names of the rules that hold; all when empty. With a minus before each: all but those."""
    keys: tuple[str, ...] = ()
    """Further names of fields, or ends of their paths, with `*` for anything within a name."""
    patterns: dict[str, str] = {}
    """Further regular expressions, by name."""
    allow: tuple[str, ...] = ()
    """What may stay although a rule finds it, with `*` for anything."""
    pseudonyms: bool = False
    """Whether equal values stay equal: a short keyed hash stands with the rule's name."""
    capture_content: bool = True
    """False keeps the structure of spans alone."""


class _TooDeep(Exception):
    pass


class _Part(NamedTuple):
    start: int
    end: int
    rule: str


class Redactor:
    """Takes out of spans and text what rules find.

    Threads may share one. It never raises: a span that it cannot look at loses its content.

    Args:
        rules: What to take out.
        key: Secret for pseudonyms, the same wherever values are to stay equal.

    Raises:
        ConfigError: A rule is unknown, a pattern is refused, or pseudonyms have no key.
    """

    def __init__(self, rules: Rules | None = None, *, key: bytes = b"") -> None:
        rules = rules or Rules()
        self.rules = rules
        named = _named(rules.rules)
        self._finders = [(name, find) for name, find in RULES.items() if name in named]
        self._on = named
        self._fields = Fields(_checked_keys(rules.keys), usual=FIELD in named)
        self._own = tuple(filter(None, self._fields.names))
        self._has_own = bool(rules.keys)
        self._always = bool(rules.keys) and len(self._own) < len(rules.keys)
        self._own_assignment = _assignment(self._own)
        self._clean_keys: set[str] = set()
        self._patterns = Patterns(rules.patterns)
        if len(rules.allow) > MOST_ALLOWED:
            raise ConfigError(
                f"[redaction] allows {len(rules.allow)} things; {MOST_ALLOWED} may be."
            )
        self._allowed = [
            re.compile(translate(each[:200].lower())) for each in rules.allow if each.strip("*")
        ]
        if rules.pseudonyms and len(key) < LEAST_KEY:
            raise ConfigError(
                f"[redaction] pseudonyms take a secret of {LEAST_KEY} characters or more.",
                hint="Set RATCHET_REDACTION_KEY, the same wherever equal values are to stay equal.",
            )
        self._key = key if rules.pseudonyms else b""

    def record(self, record: SpanRecord) -> SpanRecord:
        """The record with its span redacted; the same one when there was nothing to take out."""
        span = self.span(record.span)
        return record if span is record.span else msgspec.structs.replace(record, span=span)

    def span(self, span: Span) -> Span:
        """The span redacted; the same one when there was nothing to take out."""
        try:
            if self.rules.enabled:
                span = self._span(span)
            return span if self.rules.capture_content else content.without_content(span)
        except Exception as error:  # a defect of ours costs the content; it does not let it through
            _log.exception("A span could not be redacted; its content is not kept.")
            bare = content.without_content(msgspec.structs.replace(span, name=""))
            attributes = {**bare.attributes, FAILED: type(error).__name__}
            return msgspec.structs.replace(bare, attributes=attributes)

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
        """The text redacted; the same object when there was nothing to take out."""
        if not self.rules.enabled:
            return text
        try:
            return self._text(text)
        except Exception as error:  # as above
            _log.exception("A text could not be redacted; it is not kept.")
            return f"{MARK}{type(error).__name__}]"

    def _span(self, span: Span) -> Span:
        attributes = self._attributes(span.attributes)
        changes: dict[str, Any] = {}
        if attributes is not span.attributes:
            changes["attributes"] = attributes
        if span.events:
            events = tuple(map(self._event, span.events))
            if any(new is not old for new, old in zip(events, span.events, strict=True)):
                changes["events"] = events
        for field in ("name", "message"):
            said = getattr(span, field)
            if said and (new := self._text(said)) is not said:
                changes[field] = new
        return msgspec.structs.replace(span, **changes) if changes else span

    def _event(self, event: SpanEvent) -> SpanEvent:
        attributes, name = self._attributes(event.attributes), self._text(event.name)
        if attributes is event.attributes and name is event.name:
            return event
        return SpanEvent(name, event.time_ns, attributes)

    def _attributes(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes redacted; the same dictionary when there was nothing to take out."""
        if self._are_clean(attributes):
            return attributes
        changed = False
        made: dict[str, Any] = {}
        for key, value in attributes.items():
            new = self._value(value, parts(key), 0)
            name = key if key in self._clean_keys else self._plain(key)
            changed = changed or new is not value or name is not key
            made[name] = new
        return made if changed else attributes

    def _are_clean(self, attributes: Mapping[str, Any]) -> bool:
        """Whether there is nothing in attributes at first sight."""
        if self._always or not (
            self._clean_keys.issuperset(attributes) or self._are_clean_keys(attributes)
        ):
            return False
        # All texts at once: to look at each alone takes longer than to look at all of them.
        texts: list[str] = []
        for value in attributes.values():
            kind = value.__class__
            if kind is str:
                texts.append(value)
            elif kind is int:
                if value > _LARGE:
                    return False
            elif kind not in _HARMLESS:
                texts.append(_encode(value).decode())
        return not self._is_suspicious("\n".join(texts))

    def _are_clean_keys(self, keys: Iterable[str]) -> bool:
        """Whether keys hold no secrets and are none; those that are clean are remembered."""
        for key in keys:
            if key in self._clean_keys:
                continue
            if self._fields.is_secret(parts(key)) or self._plain(key) is not key:
                return False
            if len(self._clean_keys) < MOST_KEYS_REMEMBERED:
                self._clean_keys.add(key)
        return True

    def _is_suspicious(self, text: str) -> bool:
        seen = glance(text)
        if suspicious(seen) or self._patterns:
            return True
        if self._own:
            small = seen.lower()
            return any(name in small for name in self._own)
        return False

    def _value(self, value: Any, path: Path, depth: int) -> Any:
        """A value redacted; the same object when there was nothing to take out."""
        if value is None or value is True or value is False:
            return value
        if path and self._fields.is_secret(path):
            return self._secret(value, path, depth)
        return self._within(value, path, depth)

    def _within(self, value: Any, path: Path, depth: int) -> Any:
        kind = value.__class__
        if kind is str:
            return self._text(value, path, depth)
        if kind is int:
            is_one = value > _LARGE and "card" in self._on and is_card(str(value)[:20])
            return self._put("card", str(value)) if is_one else value
        if depth > DEEPEST:
            raise _TooDeep
        if isinstance(value, dict):
            changed = False
            made: dict[Any, Any] = {}
            for key, inner in value.items():
                if key == "token" and "logprob" in value:  # a word of a model's, not a secret
                    new = self._within(inner, path, depth + 1)
                else:
                    new = self._value(inner, (*path, str(key)), depth + 1)
                shown = self._plain(key) if key.__class__ is str else key
                changed = changed or new is not inner or shown is not key
                made[shown] = new
            return made if changed else value
        if isinstance(value, (list, tuple)):
            items = [self._value(inner, path, depth + 1) for inner in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return items
        return value

    def _secret(self, value: Any, path: Path, depth: int) -> Any:
        """What stands in a field that is secret."""
        named = self._has_own and self._fields.is_named(path)
        if isinstance(value, str):
            if not named and (_EMPTY.fullmatch(value) or value.startswith(MARK)):
                return value
            if value.startswith(MARK) and value.endswith("]"):
                return value
            return value if self._is_allowed(value) else self._put(FIELD, value)
        if isinstance(value, (int, float)):
            if named or NUMBERS_TOO(plain_name(path[-1])):
                return self._put(FIELD, str(value))
            return value
        if isinstance(value, dict):
            # A schema describes the field; and a field of probabilities names words "token".
            if not named and not _SCHEMA.isdisjoint(value):
                return self._within(value, path, depth)
            return {k: self._secret(v, path, depth + 1) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._secret(inner, path, depth + 1) for inner in value]
        return value

    def _text(self, text: str, path: Path = (), depth: int = 0) -> str:
        if not text or not self._is_suspicious(text) and not self._always:
            return text
        first = text.lstrip()[:1]
        if first in ("{", "[", '"') and depth <= DEEPEST:
            made = self._json(text, path, depth)
            if made is not None:
                return made
        return self._plain(text)

    def _json(self, text: str, path: Path, depth: int) -> str | None:
        """JSON text redacted, or None when it is to be looked at as text."""
        try:
            value = _decode(text)
            if not isinstance(value, (dict, list, str)):
                return None
            new = self._value(value, path, depth + 1)
        except (msgspec.DecodeError, RecursionError, UnicodeError, _TooDeep):
            return None
        if new is not value:
            return _encode(new).decode()
        # A key that stands twice has two values in the text and one here.
        return text if _count(value) >= len(_NAMES_IN_JSON.findall(text)) else None

    def _plain(self, text: str) -> str:
        """Text redacted that is no JSON."""
        if not suspicious(glance(text)) and not self._patterns and not self._own:
            return text
        found = [part for part in self._find(text) if not self._keeps(text, part)]
        if not found:
            return text
        pieces: list[str] = []
        at = 0
        for part in _apart(found):
            pieces.append(text[at : part.start])
            pieces.append(self._put(part.rule, text[part.start : part.end]))
            at = part.end
        pieces.append(text[at:])
        return "".join(pieces)

    def _find(self, text: str) -> Iterator[_Part]:
        view = view_of(text)
        for start, end, rule in self._find_in(view.text):
            yield _Part(*view.place(start, end), rule)
        if view.text != text:
            yield from self._find_in(text)
        try:
            for start, end, rule in self._patterns.find(view.text):
                yield _Part(*view.place(start, end), rule)
        except TookTooLong:
            yield _Part(0, len(text), "timeout")
        if "key" in self._on:
            yield from self._find_encoded(text)
        cut = beginning(text)
        if cut is not None and cut[2] in self._on:
            yield _Part(*cut)

    def _find_in(self, text: str) -> Iterator[_Part]:
        for name, find in self._finders:
            for start, end in find(text):
                yield _Part(start, end, name)
        if self._own_assignment is not None:
            for match in self._own_assignment.finditer(text):
                yield _Part(*match.span(1), FIELD)

    def _find_encoded(self, text: str) -> Iterator[_Part]:
        """Secrets in base64: what holds one once it is decoded."""
        for match in _ENCODED.finditer(text):
            decoded = _from_base64(match[0])
            if decoded is not None and suspicious(decoded):
                for _, _, rule in self._find_in(decoded):
                    yield _Part(*match.span(), rule)
                    break

    def _keeps(self, text: str, part: _Part) -> bool:
        """Whether what was found stays: it was redacted before, or is allowed."""
        found = text[part.start : part.end]
        return (
            MARK in text[max(part.start - 40, 0) : part.end + 1]
            and (found.startswith(MARK) or _is_marked(text, part))
            or self._is_allowed(found)
        )

    def _is_allowed(self, found: str) -> bool:
        if not self._allowed or len(found) > 1_000:
            return False
        small = found.strip().lower()
        return any(allowed.match(small) for allowed in self._allowed)

    def _put(self, rule: str, found: str) -> str:
        """What stands in the place of something."""
        if not self._key:
            return f"{MARK}{rule}]"
        same = re.sub(r"[\s\-]+", "", glance(found)).lower().encode("utf-8", "replace")
        return f"{MARK}{rule}:{hmac.new(self._key, same, hashlib.sha256).hexdigest()[:10]}]"


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_HARMLESS = frozenset({float, bool, type(None)})
_LARGE = 10**12
"""Smaller numbers are no cards."""


def _named(wanted: Sequence[str]) -> frozenset[str]:
    unknown = [name for name in wanted if name.removeprefix("-") not in NAMES]
    if unknown:
        raise ConfigError(
            f"[redaction] rules: there is no rule {unknown[0]!r}.",
            hint=f"Known: {', '.join(NAMES)}.",
        )
    without = {name[1:] for name in wanted if name.startswith("-")}
    if without and len(without) < len(set(wanted)):
        raise ConfigError(
            "[redaction] rules names some to hold and some not to.",
            hint="Name those that hold, or those that do not, each with a minus before it.",
        )
    return frozenset(NAMES) - without if without or not wanted else frozenset(wanted)


def _checked_keys(keys: Sequence[str]) -> Sequence[str]:
    from ratchet.observe.redaction.fields import LONGEST_KEY, MOST_KEYS

    if len(keys) > MOST_KEYS:
        raise ConfigError(f"[redaction] names {len(keys)} keys; {MOST_KEYS} may be.")
    for key in keys:
        if not 0 < len(key) <= LONGEST_KEY or not key.replace("*", "").strip(".$ "):
            raise ConfigError(
                f"[redaction] keys: {key!r} names no field.",
                hint='Name fields as "headers.cookie", "*.token" or "customer_name".',
            )
    return keys


def _assignment(names: Sequence[str]) -> re.Pattern[str] | None:
    """Finds the values of fields that a project named where JSON is cut or is no JSON."""
    if not names:
        return None
    any_of = "|".join(re.escape(name) for name in names)
    return re.compile(
        rf"(?<![A-Za-z0-9])[\w\-]{{0,40}}(?:{any_of})[\w\-]{{0,40}}[\"'\\]{{0,4}}\s{{0,3}}[:=]\s{{0,3}}[\"'\\]{{0,4}}"
        r"([^\s\"'\\,;&{}\[\]][^\"'\\\n,;&{}\[\]]{0,2000})",
        re.IGNORECASE,
    )


def _apart(found: list[_Part]) -> list[_Part]:
    """Parts in order, with those that overlap made one, named after the first rule of the list."""
    order = {name: number for number, name in enumerate(NAMES)}
    found.sort(key=lambda part: (part.start, -part.end))
    made: list[_Part] = []
    for part in found:
        if made and part.start < made[-1].end:
            last = made[-1]
            rule = min(last.rule, part.rule, key=lambda name: order.get(name, len(order)))
            made[-1] = _Part(last.start, max(last.end, part.end), rule)
        else:
            made.append(part)
    return made


_MARKED = re.compile(r"\[redacted:[a-z0-9_-]{1,31}(?::[0-9a-f]{10})?\]")


def _is_marked(text: str, part: _Part) -> bool:
    """Whether a part is nothing but what was put there before, with some punctuation."""
    at = max(part.start - 48, 0)
    for match in _MARKED.finditer(text, at, part.end + 48):
        if match.start() < part.end and match.end() > part.start:
            rest = text[part.start : match.start()] + text[match.end() : part.end]
            if len(rest.strip(" \"'=:;,")) < 4:
                return True
    return False


def _count(value: Any) -> int:
    """How many keys there are in JSON, and in JSON texts of it as far as they show."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count, value.values()))
    if isinstance(value, list):
        return sum(map(_count, value))
    return len(_NAMES_IN_JSON.findall(value)) if isinstance(value, str) else 0


def _from_base64(encoded: str) -> str | None:
    """The text that something is in base64; None when it is none."""
    body = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) > _LONGEST_ENCODED:
        return None
    try:
        begin = base64.b64decode(body[:32] + "=" * (-len(body[:32]) % 4))
        if not all(32 <= byte < 127 or byte in (9, 10, 13) for byte in begin):
            return None
        return base64.b64decode(body[: len(body) // 4 * 4 or 4] + _rest(body)).decode("ascii")
    except (ValueError, UnicodeDecodeError):
        return None


def _rest(body: str) -> str:
    left = body[len(body) // 4 * 4 :]
    return left + "=" * (-len(left) % 4) if len(left) > 1 else ""


def redactor_of(rules: Rules, environ: Mapping[str, str]) -> Redactor:
    """The redactor that a project's rules ask for.

    Args:
        rules: What to take out.
        environ: Where RATCHET_REDACTION_KEY is.

    Raises:
        ConfigError: As `Redactor` does.
    """
    return Redactor(rules, key=environ.get("RATCHET_REDACTION_KEY", "").encode())
