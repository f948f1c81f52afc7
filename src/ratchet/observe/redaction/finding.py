"""Finds secrets in text and replaces them with marks."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from fnmatch import translate
from typing import NamedTuple

from ratchet.observe.redaction.decoding import base64_words, decode, folded_visible
from ratchet.observe.redaction.patterns import Patterns, PatternTimeout
from ratchet.observe.redaction.prefilter import may_match
from ratchet.observe.redaction.rules import FIELD, RULE_NAMES, RULES
from ratchet.observe.redaction.rules.key import PREFIXES
from ratchet.observe.redaction.rules.scanned import ScannedText
from ratchet.types import ConfigError

_CUT = re.compile(
    r"… \[[0-9]{1,12} more characters\]|\n\[\.\.\. [0-9]{1,12} characters left out \.\.\.\]"
)

_DATE = r"(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?![0-9])"
_DIGITS = re.compile(
    rf"(?<![\w.,])(?!{_DATE})\+?\(?[0-9](?:[ .\-()/]{{0,3}}[0-9]){{5,}}[ .\-()/]{{0,3}}\Z"
)
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ \-.]?[A-Za-z0-9]){2,30}[ \-.]?\Z")
_EMAIL = re.compile(r"[^\s\"'<>()\[\]{},;:\\/@=]{1,64}@[\w.\-]{0,255}\Z")
_USER = re.compile(r"://[^\s/@\"'<>]{1,200}:[^\s/@\"'<>]{2,200}\Z")

_BEGINNINGS = (
    ("key", PREFIXES),
    ("credentials", _USER),
    ("email", _EMAIL),
    ("iban", _ACCOUNT),
    ("card", _DIGITS),
)


def truncated_secrets(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and rule of each beginning of a secret where a text, or a part of it, was cut."""
    if "characters" not in text:
        return
    for mark in _CUT.finditer(text):
        end = mark.start()
        tail = text[max(end - 400, 0) : end]
        for rule, form in _BEGINNINGS:
            match = form.search(tail)
            if match is not None:
                yield end - len(tail) + match.start(), end, rule
                break


MARK_START = "[redacted:"
"""Beginning of the mark that replaces a secret; the rule's name follows."""

FAILURE = f"{MARK_START}failed-"
"""Beginning of the mark that replaces a text on which redaction failed; the error's name follows.
"""

TIMEOUT = "timeout"
"""Rule name in the mark that replaces a text on which a project's patterns timed out."""

MAX_PASSES = 4

MAX_HARMLESS_LENGTH = 8
"""No rule matches a text with so few letters and digits unless it has other characters."""

MAX_ALLOWED = 200
MAX_ALLOWED_LENGTH = 200

_MARKED = re.compile(r"\[redacted:[a-z0-9_-]{1,31}(?::[0-9a-f]{10})?\]")
REMOVED: ContextVar[dict[str, set[str]] | None] = ContextVar("what marks stand for", default=None)
"""Collects each new mark and what it replaced, in this context; None if nobody asks."""

_AFTER_MARK = re.compile(r"\[redacted:[a-z0-9:_-]{1,50}\][\s:=]{0,6}\Z")
_BY_NAME = ("assignment", FIELD)
_ORDER = {name: number for number, name in enumerate(RULE_NAMES)}


class SecretMatch(NamedTuple):
    """A match of a rule in a text."""

    start: int
    end: int
    rule: str


class Finder:
    """Finds secrets in text and replaces them with marks.

    Args:
        rules: Names of the active rules.
        names: Parts of names of secret fields, in lower case.
        patterns: The project's own patterns.
        allow: Texts that are not redacted, with `*` for anything.
        key: Secret for pseudonyms; empty for none.

    Raises:
        ConfigError: `allow` has too many entries, or one is too long.
    """

    def __init__(
        self,
        rules: frozenset[str],
        names: Sequence[str],
        patterns: Patterns,
        allow: Sequence[str],
        key: bytes,
    ) -> None:
        if len(allow) > MAX_ALLOWED or any(len(pattern) > MAX_ALLOWED_LENGTH for pattern in allow):
            raise ConfigError(
                f"[redaction] allow: at most {MAX_ALLOWED} entries of {MAX_ALLOWED_LENGTH} "
                "characters are allowed."
            )
        self.rules = rules
        self._finders = [(name, find) for name, find in RULES.items() if name in rules]
        self._names = tuple(names)
        self._assigned = _assignment(names)
        self._patterns = patterns
        self._allowed = [
            re.compile(translate(pattern.lower())) for pattern in allow if pattern.strip("*")
        ]
        self._key = key

    def may_contain_secret(self, text: str) -> bool:
        """A cheap prefilter without false negatives."""
        if len(text) <= MAX_HARMLESS_LENGTH and text.isascii() and text.isalnum():
            return self._matches_patterns(text)
        visible = folded_visible(text)
        return self._may_match_rules(visible) or self._matches_patterns(visible)

    def _may_match_rules(self, visible: str) -> bool:
        if may_match(visible):
            return True
        if self._names:
            small = visible.lower()
            return any(name in small for name in self._names)
        return False

    def _matches_patterns(self, visible: str) -> bool:
        """Whether one of the project's own patterns matches."""
        if not self._patterns:
            return False
        try:
            return any(True for _ in self._patterns.find(visible))
        except PatternTimeout:
            return True

    def cleaned(self, text: str) -> str:
        """The text with secrets replaced by marks; the same object if there are none."""
        # Text beside a new mark may match now that it is no longer part of a longer word.
        for _ in range(MAX_PASSES):
            left = self._cleaned_once(text)
            if left is text:
                break
            text = left
        return text

    def _cleaned_once(self, text: str) -> str:
        if not self.may_contain_secret(text):
            return text
        matches = [part for part in self._find(text) if not self._may_stay(text, part)]
        if not matches:
            return text
        pieces: list[str] = []
        at = 0
        for part in _merged(matches):
            pieces += (text[at : part.start], self.mark(part.rule, text[part.start : part.end]))
            at = part.end
        pieces.append(text[at:])
        return "".join(pieces)

    def allows(self, secret: str) -> bool:
        """Whether `allow` exempts a text."""
        if not self._allowed or len(secret) > MAX_ALLOWED_LENGTH:
            return False
        small = secret.strip().lower()
        return any(allowed.match(small) for allowed in self._allowed)

    def mark(self, rule: str, secret: str) -> str:
        """The mark that replaces a text."""
        mark = self._mark(rule, secret)
        removed = REMOVED.get()
        if removed is not None:
            removed.setdefault(mark, set()).add(secret)
        return mark

    def _mark(self, rule: str, secret: str) -> str:
        if not self._key:
            return f"{MARK_START}{rule}]"
        # Normalised: spaces, dashes and case do not change the pseudonym.
        same = re.sub(r"[\s\-]+", "", folded_visible(secret)).lower().encode("utf-8", "replace")
        return f"{MARK_START}{rule}:{hmac.new(self._key, same, hashlib.sha256).hexdigest()[:10]}]"

    def _find(self, text: str) -> Iterator[SecretMatch]:
        decoded = decode(text)
        for part in self._find_in(decoded.text):
            yield SecretMatch(*decoded.original_span(part.start, part.end), part.rule)
        if decoded.text != text:
            yield from self._find_in(text)
        for start, end, plain in base64_words(text):
            for part in self._find_in(plain) if may_match(plain) else ():
                yield SecretMatch(start, end, part.rule)
        for start, end, rule in truncated_secrets(text):
            if rule in self.rules:
                yield SecretMatch(start, end, rule)
        try:
            for start, end, name in self._patterns.find(decoded.text):
                yield SecretMatch(*decoded.original_span(start, end), name)
        except PatternTimeout:
            yield SecretMatch(0, len(text), TIMEOUT)

    def _find_in(self, text: str) -> Iterator[SecretMatch]:
        scanned = ScannedText(text)
        for name, find in self._finders:
            for start, end in find(scanned):
                yield SecretMatch(start, end, name)
        if self._assigned is not None:
            for match in self._assigned.finditer(text):
                yield SecretMatch(*match.span(match.lastgroup or 0), FIELD)

    def _may_stay(self, text: str, part: SecretMatch) -> bool:
        """Whether a match is not replaced: it is a mark, or exempt."""
        if part.rule in _BY_NAME and _AFTER_MARK.search(text, max(part.start - 60, 0), part.start):
            return True  # the name before it is part of a mark
        return _is_marked(text, part) or self.allows(text[part.start : part.end])


def is_mark(text: str) -> bool:
    """Whether a text is only a mark."""
    return text.startswith(MARK_START) and _MARKED.fullmatch(text) is not None


def marks_in(text: str) -> list[str]:
    """The marks in a text, each once."""
    return list(dict.fromkeys(_MARKED.findall(text)))


def is_failure_mark(text: str) -> bool:
    """Whether a whole text was replaced because it could not be redacted."""
    return text.startswith(FAILURE) or text == f"{MARK_START}{TIMEOUT}]"


def _is_marked(text: str, part: SecretMatch) -> bool:
    """Whether a match is a mark or a part of one, apart from a little punctuation."""
    begin = max(part.start - 60, 0)
    if MARK_START not in text[begin : part.end + 60]:
        return False
    for match in _MARKED.finditer(text, begin, part.end + 60):
        if match.start() < part.end and match.end() > part.start:
            beside = text[part.start : match.start()] + text[match.end() : part.end]
            if len(beside.strip(" \"'=:;,")) < 4:
                return True
    return False


def _assignment(names: Sequence[str]) -> re.Pattern[str] | None:
    """Pattern for values of the project's fields in text that is not entirely JSON."""
    if not names:
        return None
    any_of = "|".join(re.escape(name) for name in names)
    return re.compile(
        rf"(?<![A-Za-z0-9])[\w\-]{{0,40}}(?:{any_of})[\w\-]{{0,40}}"
        r"[\"'\\]{0,4}\s{0,3}[:=]\s{0,3}\\{0,3}(?:"
        r"\"(?P<double>[^\"\\\n]{1,2000})|'(?P<single>[^'\\\n]{1,2000})"
        r"|(?P<bare>[^\s\"'\\,;&{}\[\]][^\"'\\\n,;&{}\[\]]{0,2000}))",
        re.IGNORECASE,
    )


def _merged(matches: list[SecretMatch]) -> list[SecretMatch]:
    """Matches in order; overlapping ones are merged under the rule that is first in `RULES`."""
    matches.sort(key=lambda part: (part.start, -part.end))
    merged: list[SecretMatch] = []
    for part in matches:
        if merged and part.start < merged[-1].end:
            last = merged[-1]
            rule = min(last.rule, part.rule, key=lambda name: _ORDER.get(name, len(_ORDER)))
            merged[-1] = SecretMatch(last.start, max(last.end, part.end), rule)
        else:
            merged.append(part)
    return merged
