"""Redaction: removes secrets and personal data from spans before they are sent or stored.

redactor = Redactor(RedactionRules(keys=("customer.name",)))
redactor.text("write to ann@example.com")      # 'write to [redacted:email]'
redactor.record(record)                        # a SpanRecord
"""

from ratchet.observe.redaction.config import RedactionRules
from ratchet.observe.redaction.content import record_without_content, without_content
from ratchet.observe.redaction.finding import MARK_START, is_failure_mark, marks_in
from ratchet.observe.redaction.redactor import KEY_VARIABLE, Redactor, redactor_of
from ratchet.observe.redaction.rules import RULE_NAMES

__all__ = [
    "KEY_VARIABLE",
    "MARK_START",
    "RULE_NAMES",
    "RedactionRules",
    "Redactor",
    "is_failure_mark",
    "marks_in",
    "record_without_content",
    "redactor_of",
    "without_content",
]
