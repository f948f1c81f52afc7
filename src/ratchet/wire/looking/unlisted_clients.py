"""Which methods act of clients that no table lists, by the words of their names and owners."""

from __future__ import annotations

import re
import sys

from ratchet.wire.facts import EffectKind
from ratchet.wire.looking.former_frameworks import framework_of
from ratchet.wire.looking.method_words import READING, SETTING_UP, awaited, words_of
from ratchet.wire.looking.syntax import AttributeUse, Syntax, chain_of, last_name

_PURE = re.compile(
    r"(?:"
    # numbers, tables, tensors, pictures, text
    r"numpy|pandas|polars|dask|pyarrow|scipy|sklearn|xgboost|lightgbm|statsmodels|torch\w*|tensorflow"
    r"|keras|jax|flax|transformers|datasets|evaluate|sentence_transformers|nltk|spacy|gensim|tiktoken"
    r"|tokenizers|cv2|PIL|skimage|matplotlib|seaborn|plotly|altair|bokeh|networkx|sympy|shapely"
    r"|geopandas|librosa|faiss|rank_bm25|ranx|tree_sitter\w*|esprima|pygments|rapidfuzz|Levenshtein"
    # parsing and data classes
    r"|bs4|lxml|html5lib|markdown\w*|mistune|html2text|markdownify|docx|openpyxl|icalendar|ics|vobject|qrcode|barcode|google\.colab|idb|localforage|dexie|pptx|yaml|ruamel|toml\w*"
    r"|orjson|ujson|simplejson|json5|json_repair|jsonschema|jsonlines|feedparser|trafilatura|newspaper"
    r"|pydantic\w*|attrs?|msgspec|marshmallow|dataclasses_json|typing_extensions|mashumaro|jinja2"
    r"|mako|chevron|pystache|dateutil|pytz|pendulum|arrow|humanize|box|munch|frozendict|cachetools"
    r"|more_itertools|toolz|regex|unidecode|chardet|emoji|ftfy"
    # what a program is built of, shown and watched by
    r"|fastapi|starlette|flask\w*|quart\w*|sanic|aiohttp\.web\w*|tornado|django\.(?!db)\w+|uvicorn"
    r"|werkzeug|itsdangerous|passlib|jwt|jose|cryptography|bcrypt|click|typer|rich|textual|tqdm|alive_progress"
    r"|prompt_toolkit|questionary|InquirerPy|inquirer|colorama|termcolor|streamlit\w*|gradio\w*|chainlit"
    r"|nicegui|flet|dash\w*|panel|loguru|structlog|logging\w*|dotenv|environs|decouple|dynaconf|hydra"
    r"|omegaconf|tenacity|backoff|limits|slowapi|pytest\w*|hypothesis|mock|responses|respx|faker"
    r"|opentelemetry|openinference|langfuse|langsmith|phoenix|sentry_sdk|prometheus_client|weave|wandb"
    r"|mlflow|logfire|agentops|traceloop|helicone|anyio|trio|asyncio\w*|nest_asyncio|attr|injector"
    r"|dependency_injector|dishka|apscheduler|watchdog|psutil|sseclient|sse_starlette|websockets\.sync"
    r"|setuptools|packaging|pkg_resources|importlib_\w+"
    r"|alembic|mcp\.types"
    # JavaScript: language, data, pages
    r"|react[\w-]*|@react[\w-]*|next|next-[\w-]+|vue|@vue|svelte|@svelte\w*|solid-js|preact|@angular|rxjs|zod"
    r"|yup|joi|ajv|valibot|lodash[\w.-]*|ramda|underscore|immer|date-fns|dayjs|moment|luxon|clsx|classnames"
    r"|sonner|@radix-ui|framer-motion|motion|@tanstack|zustand|jotai|recoil|swr|usehooks-ts|mobx|redux|@reduxjs"
    r"|d3[\w-]*|three|chart\.js|recharts|prosemirror[\w-]*|@codemirror|codemirror|@tiptap|@lexical|lexical|monaco[\w-]*"
    r"|@monaco-editor|remark[\w-]*|rehype[\w-]*|unified|marked|turndown|cheerio|jsdom|papaparse|diff|orderedmap"
    r"|express|fastify|@fastify|hono|@hono|koa|@koa|@nestjs|cors|helmet|body-parser|multer|socket\.io|ws"
    r"|commander|yargs|chalk|ora|kleur|picocolors|inquirer|@inquirer|@clack|blessed|ink|winston|pino|debug|consola"
    r"|dotenv|nanoid|uuid|crypto-js|jsonwebtoken|bcryptjs?|bcrypt-ts|fast-deep-equal|p-limit|p-queue|async|events"
    r"|eventemitter3|eventsource-parser|vitest|jest|@jest|mocha|chai|sinon|@testing-library|storybook|vite|webpack"
    r"|esbuild|tailwind[\w-]*|class-variance-authority|embla[\w-]*|cmdk|vaul|lucide-react|i18next|@vercel/analytics"
    r"|@vercel/otel|resumable-stream|@types|typescript|@aws-sdk/client-bedrock[\w-]*|tslib|sharp|js-tiktoken|gpt-tokenizer|@dqbd|graphql-tag|gql"
    r"|[\w@/-]+/react|[\w@/-]*copilot[\w-]*"
    r")(?=[./]|$)"
)
"""Packages that compute, show, parse, log or test: nothing outside of the process changes."""
_MODULES_OF_NODE = re.compile(
    r"(?:node:|bun:|assert|buffer|crypto|events|fs|http|https|net|os|path|process|querystring"
    r"|readline|stream|string_decoder|timers|tty|url|util|v8|vm|worker_threads|zlib)(?=[./]|$|\w)"
)
_PLAIN = frozenset(
    {
        *("send", "post", "publish", "upload", "upsert", "delete", "purge", "deploy"),
        *("reply", "tweet", "notify", "broadcast", "submit", "refund", "charge", "pay", "transfer"),
        *("buy", "sell", "withdraw", "purchase", "invite", "revoke", "persist", "ban", "unfollow"),
        *("follow", "retweet", "archive", "trash", "terminate", "enqueue"),
    }
)
"""Words that say that something outside changes, whatever they are said of."""
_OF_STORE = frozenset(
    {
        *("create", "add", "insert", "update", "remove", "put", "patch", "set", "write", "save"),
        *("store", "merge", "push", "append", "modify", "replace", "edit", "move", "rename"),
        *("drop", "destroy", "commit", "ingest", "assign", "schedule", "cancel", "book"),
        *("order", "share"),
        *("import", "trigger", "launch", "restart", "comment", "memorize", "forget", "index"),
    }
)
"""Words that lists, objects and builders have too: they act in what keeps things elsewhere."""
_KEEPING = frozenset(
    {
        *("client", "api", "sdk", "service", "store", "storage", "database", "db", "collection"),
        *("bucket", "bot", "connection", "conn", "driver", "memory", "knowledge", "drive"),
        *("mailbox", "account", "vectorstore", "docstore", "warehouse", "workspace", "crm"),
        *("gateway", "repository", "datastore", "wallet", "exchange"),
    }
)
"""Words of what keeps things outside of the process."""
_KEPT = frozenset(
    {
        *("calendar", "sheet", "spreadsheet", "tickets", "issues", "contacts", "notes"),
        *("documents", "pages", "records", "projects", "tasks", "events", "items", "orders"),
        *("invoices", "deals", "posts", "channels"),
    }
)
"""Words of what a client has; a class of such a name may be one of data."""
_INDEXES = re.compile(r"(?:^|\.)(?:[A-Z]\w*)?Index(?:\.|$)")
_WITHIN = re.compile(
    r"[Ii]n_?[Mm]emory|InMem|MemorySaver|BufferMemory|Memory_?Buffer|MemoryBlock|ChatMessageHistory"
    r"|Message_?History|SimpleDocument|SimpleVector|SimpleIndex|SimpleGraph|SimpleKVStore|LocMem"
    r"|DictStore|[Cc]ache|[Mm]ock|[Ff]ake|[Dd]ummy"
)
"""Stores that stay in the process."""
_OTHERWISE = re.compile(
    r"[Ll]ogger|[Ll]ogging|[Tt]racer|[Mm]etric|[Cc]allback|[Pp]rogress|[Ss]treamWriter|write_event"
    r"|RunContext|ToolContext|CallbackContext|session\.state|[Mm]odels?\.(?:generate|embed)"
    r"|[Ee]mbedding|completions|(?:^|\.)responses\.|\.messages\.|[Pp]arser|[Ss]plitter|[Bb]uilder"
    r"|[Ff]ormatter|StateGraph|Graph\.add|[Pp]rompt|[Tt]emplate|[Cc]onfig|[Ss]chema|[Ss]ettings"
    r"|[Ee]rror|[Ee]xception|[Tt]ypes?\."
)
"""What only watches, builds or describes, or is a model's call."""
_ASKING = frozenset({"prompt", "messages", "instructions", "model", "input", "contents"})
"""Arguments of calls that ask a model."""
_TURNS = frozenset({"thread", "message", "messages", "run", "completion", "response", "event"})
"""What a framework keeps of a conversation."""
_STORING = frozenset(
    {"store", "database", "db", "collection", "memory", "knowledge", "vectorstore", "docstore"}
)
_BEFORE = (["batch"], ["bulk"], ["async"], ["try"], ["safe"], ["begin"])
"""Words before the one that acts."""
_OF_RESOURCES = frozenset({"create", "ingest", "cancel"})
"""Words of what an API's client has: `client.datastores.create`."""
_OF_NAMED = _OF_RESOURCES | {"update"}
_PUT_TO_MODELS = frozenset({"query", "prompt", "question", "chat", "completion"})
_NAMED = (["client"], ["api"], ["sdk"], ["bot"], ["adapter"], ["provider"], ["mailer"], ["gmail"])
"""Last words of names of clients that were not followed."""
_ASKED = frozenset(
    {"threads", "runs", "chats", "generations", "images", "predictions", "speech", "conversations"}
)
"""What an API has whose parts ask a model."""
_COLLECTING = frozenset({"append", "push", "set", "index", "remove", "replace"})
"""Words of lists and of objects that are filled: they act in a store alone."""
GRANTING = ("upsert", "recreate", "overwrite", "replace_existing")
"""Arguments that let a call write: `knowledge.load(upsert=True)`."""


def stays_within(outside: str) -> bool:
    """Whether a method is of a store that the process alone has."""
    return _WITHIN.search(outside) is not None


def is_unlisted_client(outside: str) -> bool:
    """Whether an outside name is of a package that may be a client's: none that only computes."""
    top = re.split(r"[./]", outside, maxsplit=1)[0]
    return bool(outside[:1].isalpha() or outside[:1] == "@") and not (
        outside.startswith(("@/", "~"))
        or top in sys.stdlib_module_names
        or _PURE.match(outside)
        or _MODULES_OF_NODE.match(outside)
    )


def unlisted_effect(
    outside: str, instance: bool, keywords: frozenset[str] = frozenset()
) -> EffectKind | None:
    """The effect of a method of an object from outside, by the words of its name and its owner.

    Args:
        outside: Dotted name of the method, from its package on.
        instance: Whether it is of an object, and no function of a module.
        keywords: Arguments that are given and not off.
    """
    owner, _, method = outside.rpartition(".")
    if not owner or method[:1].isupper() or not is_unlisted_client(outside):
        return None
    if stays_within(outside) or _OTHERWISE.search(outside) or not keywords.isdisjoint(_ASKING):
        return None
    framework = framework_of(owner)
    if framework and instance and not keywords.isdisjoint(GRANTING):
        return "database write"
    words = words_of(awaited(method))
    if words[:1] in _BEFORE:
        words = words[1:]
    if not words or words[0] in READING or SETTING_UP.match(method):
        return None
    objects = _objects(owner)[-2:] if instance else []
    owners = {word for step in objects for word in words_of(step)}
    held = {word for step in objects if step[:1].islower() for word in words_of(step)}
    collects = words[0] in _COLLECTING or (words[0] == "set" and len(words) > 1)
    keeps = bool(owners & (_STORING if collects else _KEEPING) or (held & _KEPT and not collects))
    keeps = keeps or bool(instance and _INDEXES.search(owner))
    resource = len(objects) > 1 and objects[-1].endswith("s") and objects[-1].islower()
    asks = any(step in _ASKED for step in objects)
    keeps = keeps or (resource and not asks and words[0] in _OF_RESOURCES)
    if framework:  # its agents, messages and prompts stay in the process
        acts = keeps and words[0] in _PLAIN | _OF_STORE and _TURNS.isdisjoint(words)
    else:
        acts = words[0] in _PLAIN or (keeps and words[0] in _OF_STORE)
    if not acts:
        return None
    if words[0] in ("delete", "purge", "destroy"):
        return "delete"
    stored = not owners.isdisjoint(_STORING) or _INDEXES.search(owner)
    return "database write" if stored else "post"


def named_effect(function: Syntax) -> bool:
    """Whether a method of an object that is known by its name alone acts: `bot.send_note`.

    Args:
        function: What is called.
    """
    if not isinstance(function, AttributeUse) or function.name[:1].isupper():
        return False
    owner = words_of(last_name(function.base))
    words = words_of(awaited(function.name))
    words = words[1:] if words[:1] in _BEFORE else words
    if not words or owner[-1:] not in _NAMED or SETTING_UP.match(function.name):
        return False
    plain = words[0] in _PLAIN or (words[0] in _OF_NAMED and len(words) > 1)
    if not _PUT_TO_MODELS.isdisjoint(words):
        return False
    return plain and not _OTHERWISE.search(chain_of(function))


def _objects(owner: str) -> list[str]:
    """Steps of a dotted name after its module: from the first class on, if there is one."""
    steps = owner.split(".")
    for number, step in enumerate(steps):
        if step[:1].isupper() and number:
            return steps[number:]
    return [step for step in steps[1:] if not re.search(r"[/@-]", step)]
