"""Literals that read like prompts, in any supported language.

What tells is where a text stands (the content of a system message, an argument or a variable that
is called prompt or instructions) and how it speaks: a prompt tells a model who it is or what to do.
A text that asks or tells a person something is none: one that goes to `input`, a console, a log,
an error or an option's help, directly or by its variable, and a line that waits for an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ratchet.source.literals.languages import LANGUAGES
from ratchet.source.literals.literal import Literal, is_mark
from ratchet.source.literals.literal_context import LiteralContext, blanked, surroundings
from ratchet.source.literals.search import read_file
from ratchet.source.literals.source_files import is_generated, is_searched, is_test
from ratchet.wire.looking.inventory import Place, PromptText
from ratchet.wire.looking.listing import FileListing, line_at

_CUE = re.compile(
    r"prompt|instruct|system|persona|backstory|message|role|signature|you are|(?:Agent|Task)\(",
    re.I,
)
"""A file with a prompt contains at least one of these words."""
_NAME = re.compile(
    r"(?:^|[_.\-])(?:prompts?|instructions?|system|persona|preamble|backstory|few_?shot\w*"
    r"|sys(?:tem)?_?(?:msg|message|text|template|content)s?)(?:$|[_.\-\[\d])"
)
"""Names, in snake case, of texts for a model."""
_SURELY = re.compile(r"(?:instructions?|sys(?:tem)?_?(?:prompt|message|msg)s?|backstory|persona)$")
_RETURNING = re.compile(r"(?:prompts?|instructions?|messages?)$")
_PARTS = re.compile(r"(?:goal|backstory|role|description|expected_output|template|content|text)$")
"""Names of texts for a model inside an agent's definition."""
_AGENT_FILE = re.compile(r"(?:^|[/_-])(?:agents?|tasks?|prompts?)\.ya?ml$")
_PROMPT_FILE = re.compile(r"(?:^|[/_-])(?:prompts?|instructions|personas?)(?:[/_.-])", re.I)
_PROMPT_NAME = re.compile(r"(?:^|[_-])(?:persona|prompt\w*|system(?:[_-]message)?)\.")
_OTHER_TEXT = re.compile(r"(?:readme|license|changelog|contributing|requirements|agents|claude)\W")
_TEXTS = frozenset({".md", ".txt", ".prompt", ".j2", ".jinja", ".jinja2", ".prompty", ".mustache"})
_AGENT_CALL = re.compile(
    r"(?:Agent|Task|Crew|Assistant|Prompt\w*|Message\w*|Predict|ChainOfThought|LLMChain)$"
    r"|(?:from_messages|from_template|fromMessages|fromTemplate|create_react_agent)$"
)
_MODEL_CALL = re.compile(
    r"(?:generate\w*|a?invoke|predict|a?complete\w*|a?chat|create|stream\w*|run|\w*llm)$", re.I
)
_SAME_TEXT = re.compile(r"(?:dedent|cleandoc|str|format|join|[lr]?strip|replace|String|_)$")
"""Calls that return the text that they are given."""
_PERSON_CALL = re.compile(
    r"(?:input|raw_input|print\w*|f?print\w*|log|debug|info|warn|warning|error|exception|critical"
    r"|fatal|success|s?echo|ask|confirm|choose|question|getpass|interrupt|text_input|text_area"
    r"|chat_input|selectbox|multiselect|radio|write|markdown|title|(?:sub)?header|caption|toast"
    r"|add_argument|add_parser|ArgumentParser|option|argument|Textbox|HTML|rule"
    r"|Panel|\w*Error|\w*Exception|alert|prompt|notify|status|spinner|reply_text|send_message|skip"
    r"|fail|deprecated|Field|assert\w*|describe|it|test|execute|compile|getLogger|AIMessage|read)$",
    re.I,
)
"""Calls whose text is for a person, or for a model but is not an instruction."""
_PERSON_NAME = re.compile(
    r"(?:help|placeholder|label|title|epilog|usage|error|detail|tooltip|alt|aria-?label|caption"
    r"|className|class|style|href|src|url|id|key|name|version|model|author|license)$"
)
_OPENS = re.compile(
    r"\W*(?:i am an?\b|(?:role\W+)?you are (?!allowed|welcome|not\b|about|already|now \w+ed\b)"
    r"|you're an?\b|your (?:task|job|role|goal|purpose|name is)\b|act as\b|assistant is"
    r"|as an? (?:expert|ai|helpful|experienced)|answer (?:the|only|in|as|this)|respond\b"
    r"|(?:please )?(?:use|given|based on|considering|using) the\b|reply (?:with|only|in)"
    r"|(?:please )?(?:extract|summari[sz]e|classify|analy[sz]e|translate|rewrite|evaluate|generate"
    r"|write|create|determine|identify|compare|review|rate|grade|convert|explain|describe|provide"
    r"|produce|conduct|research|compile|suggest|find)\b|system:|i want you to"
    r"|the following (?:is|are|text|conversation)|###? ?(?:instruction|system|role|task|context))",
    re.I,
)
"""How prompts begin."""
_CASTS = re.compile(r"\W*(?:you are an? |i want you to act as )", re.I)
_SPEAKS = re.compile(
    r"\byou (?:are|will|must|should|can|have|need)\b|\bdo not\b|\bdon't\b|\bnever\b|\balways\b"
    r"|\byour (?:task|job|role|goal|answer|response|output)\b|\bmake sure\b|\bensure\b|\bjson\b"
    r"|\b(?:respond|reply|answer|return|output)\b[^.\n]{0,40}\b(?:only|with|in|as|json|the)\b"
    r"|\bif (?:you|the user)\b|\bthe (?:user|question|context|following|given|provided)\b"
    r"|\bstep[- ]by[- ]step\b|\b(?:instruction|guideline|rule|example|context|question)s?:",
    re.I,
)
"""What prompts say."""
_ASKS = re.compile(
    r"\W*(?:(?:please )?(?:enter|type|press|choose|select|pick|input|provide your|paste)\b|welcome"
    r"|what(?:'s| is) your|do you want|would you like|are you sure|continue\?|hello|hi\b|usage:"
    r"|good)",
    re.I,
)
_WAITS = re.compile(
    r"\bpress (?:enter|any key)\b|\btype ['\"]?(?:exit|quit|y|yes)\b|\(y(?:es)?/n(?:o)?\)", re.I
)
_CODE = re.compile(
    r"\s*(?:<(?:[!/]|html|div|p>|span|style|script|svg)|SELECT\b|INSERT\b|CREATE\b|UPDATE\b|DELETE\b"
    r"|WITH \w+ AS|MATCH ?\(|https?://|[{\[]\s*\"|import |from \w+ import|def |class |function "
    r"|\(?\^|[.#]?[\w-]+\s*\{)"
)
_WORD = re.compile(r"[^\W\d_]{2}")
_SHOWN = 200
_LEAST, _LEAST_OF_JSON = 3, 12
"""Minimum number of words of a prompt; in JSON, most short texts are data."""


def find_prompts(listing: FileListing) -> Iterator[PromptText]:
    """Literals and whole files that read like prompts, by file and line; none of tests."""
    for path in listing.paths:
        ending = PurePosixPath(path).suffix.lower()
        if not is_searched(path) or is_test(path):
            continue
        if ending in _TEXTS:
            yield from _whole_file(listing, path)
        elif ending.removeprefix(".") in LANGUAGES:
            text = listing.text(path)
            cued = text and (_CUE.search(text) or _AGENT_FILE.search(path))
            if text and cued and not is_generated(text):
                yield from _in_source(path, text)


def _whole_file(listing: FileListing, path: str) -> Iterator[PromptText]:
    name = path.rpartition("/")[2].lower()
    match = _PROMPT_FILE.search(path) or _PROMPT_NAME.search(name)
    if _OTHER_TEXT.match(name):
        return
    text = (listing.text(path) or "").strip()
    tells = _OPENS.match(text) or len(_SPEAKS.findall(text)) >= 2
    is_named = bool(match) or name.endswith((".prompt", ".prompty")) or bool(_CASTS.match(text))
    if text and is_named and tells:
        yield PromptText(Place(path), "", _begin(text), len(text), "it tells a model what to do")


def _in_source(path: str, text: str) -> Iterator[PromptText]:
    literals = read_file(text, path).literals
    plain, end = "", 0
    min_words = _LEAST_OF_JSON if path.endswith(".json") else _LEAST
    for literal in sorted(literals, key=lambda literal: (literal.span[0], -literal.span[1])):
        value = literal.value
        words = sum(_WORD.search(word) is not None for word in value.split())
        if literal.span[0] < end or words < min_words or _CODE.match(value):
            continue  # a part of a prompt, too short, or no prose
        plain = plain or blanked(text, literals)
        around = surroundings(text, plain, literal.span)
        why = _why(path, text, literal, words, around)
        if why and not _asks_by_variable(text, around):
            end = literal.span[1]
            place = Place(path, line_at(text, literal.span[0]))
            name = next((label for label in around.names if label), around.function)
            yield PromptText(place, name, _begin(value), len(value), why)


def _why(path: str, text: str, literal: Literal, words: int, around: LiteralContext) -> str:
    """Why a literal looks like a prompt, as a clause; empty if nothing suggests it."""
    value = literal.value
    label = next((name for name in around.names[:2] if name), "")
    calls = [call.rpartition(".")[2] for call in around.calls if call]
    inner = next((call for call in calls if not _SAME_TEXT.match(call)), "")
    if around.role in ("assistant", "ai") or _asks_person(value, words, label, inner):
        return ""
    if around.alone:
        return _docstring(text, literal)
    opens, speaks = _OPENS.match(value) is not None, len(_SPEAKS.findall(value))
    tells = opens or speaks > 0
    if around.role and (tells or around.role in ("system", "developer")):
        return f"it is the content of a {around.role} message"
    if _AGENT_FILE.search(path) and _PARTS.match(_snake(label)):
        return f"it is the {label} of an agent"
    name = next((name for name in around.names if name and _NAME.search(_snake(name))), "")
    if not name and _RETURNING.search(_snake(around.function)):
        name = around.function
    # A bare `prompt` may be what somebody would type.
    telling = bool(literal.slots) or "{" in value or _snake(name) not in ("prompt", "prompts")
    agent = next((call for call in calls if _AGENT_CALL.search(call)), "")
    if label == "description" and not agent:
        return ""  # of a tool or a field
    is_passed = any(calls) or name == around.function or "instruction" not in name
    surely = is_passed and _SURELY.search(_snake(name)) is not None
    if name and (tells or surely or (words >= 8 and telling)):
        return f"it is named {name}"
    if (tells or words >= 8) and _is_given_by_name(text, label):
        return f"it is passed to a model as {label}"
    if label and _PROMPT_FILE.search(path) and (words >= 25 or (words >= 8 and tells)):
        return "it is in a prompt file"
    spoken = tells or agent == "SystemMessage" or (words >= 5 and "essage" not in agent)
    if agent and spoken and (not label or _PARTS.match(_snake(label))):
        return f"it is passed to {agent}"
    if any(map(_MODEL_CALL.match, calls)) and (opens or speaks >= 2):
        return f"it is passed to {inner} and gives instructions"
    is_data = literal.language in ("JSON", "TOML", "YAML")
    if not is_data and _CASTS.match(value):
        return "it tells a model who it is"
    if not is_data and words >= 12 and ((opens and speaks) or speaks >= 4):
        return "it tells a model what to do"
    return ""


def _asks_person(value: str, words: int, label: str, call: str) -> bool:
    """Whether a text is for a person: by its call, its label, or its words."""
    if _PERSON_NAME.match(label) or (_PERSON_CALL.match(call) and label != "default"):
        return True
    if words <= 60 and _WAITS.search(value):
        return True
    short = words <= 14 and "\n" not in value.strip()
    return short and bool(_ASKS.match(value) or re.search(r"[:>?]\s*$", value))


def _asks_by_variable(text: str, around: LiteralContext) -> bool:
    """Whether the variable that holds a text is passed to a prompt for a person."""
    name = re.escape(around.names[0]) if around.names and around.names[0] else ""
    pattern = rf"\b(?:input|raw_input|ask|confirm|question|getpass|interrupt)\(\s*{name}\s*[,)]"
    return bool(name) and re.search(pattern, text) is not None


def _is_given_by_name(text: str, name: str) -> bool:
    """Whether a file uses a variable as the content of a system message, or as the text of a
    prompt."""
    message = r"(?:system|developer)[\"'][^{}]{0,40}content[\"']?\s*[:=]\s*"
    label = r"(?:system\w*|instructions?|prompt|template|backstory)[\"']?\s*[:=]\s*"
    call = r"(?:SystemMessage|from_template|fromTemplate|PromptTemplate)\((?:content=)?\s*"
    pattern = rf"(?:{message}|\b{label}|{call}){re.escape(name)}\b"
    return bool(name) and re.search(pattern, text) is not None


def _docstring(text: str, literal: Literal) -> str:
    """A docstring is a prompt if it belongs to a DSPy signature."""
    line = text.rfind("\n", 0, literal.span[0])
    above = text[max(0, line - 200) : line].rstrip().rpartition("\n")[2]
    signature = re.match(r"\s*class\s+\w+\(.*\bSignature\)\s*:", above)
    return "it is the docstring of a signature" if signature else ""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _begin(value: str) -> str:
    characters = ("{…}" if is_mark(character) else character for character in value[: 2 * _SHOWN])
    return " ".join("".join(characters).split())[:_SHOWN]
