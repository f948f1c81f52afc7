"""Ordinary text: what people and agents write that is no secret, though it may look like one."""

# ruff: noqa: RUF001 - other scripts are meant

from __future__ import annotations

import ast
import hashlib
import json
import random
import sysconfig
import uuid
from collections.abc import Iterator
from pathlib import Path

NAMES = ("Ann", "Bilal", "Chloé", "Dmitri", "Esra", "Fatou", "Gao", "Hélène", "Ingrid", "José")
THINGS = ("invoice", "parcel", "booking", "ticket", "contract", "claim", "sample", "report")
VERBS = ("arrived", "was cancelled", "is late", "needs a signature", "could not be found")

TEMPLATES = (
    "{name} asks whether {thing} {number} {verb}.",
    "Order number {order} {verb} on {date}; the total is {price} EUR incl. 19 % VAT.",
    "Version {version} of the {thing} service was deployed at {time} on {date}.",
    "The build {sha} passed in {number} s, {other} tests, 0 failures.",
    "Request {uuid} took {number} ms; trace {trace}.",
    "sha256:{sha256}  {thing}-{version}.tar.gz",
    "From {date} {time} to {date2} {time2} there were {other} visitors.",
    "Invoice {year}-{number}-{other} is due within 30 days.",
    "Flight LH{number} leaves gate B{small} at {time}, seat {small}C, reference {code}.",
    "The ISBN is 978-3-{number}-{other}-{small}; page {small}.",
    "Temperature: {small}.{small} °C, pressure {number}.{small} hPa, humidity {small} %.",
    "Coordinates {small}.{other}{other}, -{small}.{other}{other}; altitude {number} m.",
    "Timestamp 17{epoch}, that is {date}T{time}:00Z.",
    "SKU {code}-{number}-{other}, lot {order}, shelf {small}/{small}.",
    "git log --oneline {sha7}..{sha7b}  # {other} commits",
    "Section {small}.{small}.{small} of the contract, paragraph ({small}).",
    "The score was {small}:{small}; {name} played {number} minutes.",
    "Parts {number} {other} {small} and {small} are missing from {thing} {number}.",
    "Room {number}, {small} Main Street, {zip} Springfield.",
    "for i in range({number}): total += values[i] * {small}.{small}",
    "def key_of(token: str, password: str | None = None) -> str: ...",
    "The key is to ask first. A token of thanks: the secret is patience.",
    "if token.type == NAME and token.string == 'def': return parse(token)",
    "tokens = tokenizer.encode(text); max_tokens={number}, input_tokens={other}",
    "Please reset your password. The password is at least {small} characters long.",
    "Your API key must be kept safe. Set api_key in the settings before you begin.",
    "SELECT id, total FROM orders WHERE id = {order} AND created > '{date}';",
    "GET /v1/orders/{order}?page={small}&sort=-created HTTP/1.1 200 {number}",
    "https://shop.example.test/p/{code}/{order}?utm_source=mail&utm_campaign=spring_{year}",
    "Color #{hex6}, border 1px solid #{hex6b}; margin: 0 {small}px {small}px;",
    "@dataclass\nclass Thing:\n    name: str\n    size: int = {number}",
    "[{number}, {other}, {small}, {number}, {other}, {small}, {small}, {number}]",
    "0x{hex6}{hex6b} 0b1011 1e-{small} {number}_{number}_{other}",
    "CVE-{year}-{number}{small} affects versions before {version}; see RFC {number}.",
    "Mo-Fr 08:00-18:30, Sa 09:00-14:00. Closed on {date}.",
    "Weights: {small}.{number} {small}.{other} {small}.{number} {small}.{other} (kg)",
    "{name} (she/her) will meet {name2} at the station at {time}.",
    "Ärztliche Bescheinigung für {name}, gültig bis {date}. Größe: {number} cm.",
    "会议在{year}年{small}月举行，共有{number}人参加。",
    "Счёт № {number} от {date} на сумму {price} руб.",
    "Bonjour {name}, votre commande n° {order} a été expédiée le {date}.",
)


def docstrings() -> Iterator[str]:
    """What the standard library says of itself, as it lies in this interpreter."""
    root = Path(sysconfig.get_path("stdlib"))
    for folder in ("", "asyncio", "collections", "concurrent/futures", "email", "http", "json"):
        for path in sorted((root / folder).glob("*.py")):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, UnicodeDecodeError):
                continue
            for node in ast.walk(tree):
                if isinstance(
                    node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
                ):
                    found = ast.get_docstring(node)
                    if found:
                        yield found


def sentences(seed: int = 11, count: int = 4_000) -> Iterator[str]:
    """Sentences with numbers, dates, versions, hashes and code, made by a seed."""
    rng = random.Random(seed)

    def digits(length: int) -> str:
        return str(rng.randint(10 ** (length - 1), 10**length - 1))

    for number in range(count):
        blob = hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()
        when = f"{rng.randint(2001, 2031)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        text = TEMPLATES[number % len(TEMPLATES)].format(
            name=rng.choice(NAMES),
            name2=rng.choice(NAMES),
            thing=rng.choice(THINGS),
            verb=rng.choice(VERBS),
            number=digits(rng.randint(2, 4)),
            other=digits(rng.randint(2, 4)),
            small=rng.randint(1, 9),
            order=digits(rng.randint(6, 12)),
            price=f"{rng.randint(1, 9999)}.{rng.randint(0, 99):02d}",
            date=when,
            date2=when,
            time=f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}",
            time2=f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}",
            year=when[:4],
            version=f"{rng.randint(0, 9)}.{rng.randint(0, 40)}.{rng.randint(0, 99)}",
            sha=blob[:40],
            sha7=blob[:7],
            sha7b=blob[7:14],
            sha256=blob,
            trace=blob[:32],
            uuid=uuid.UUID(blob[:32]),
            code=blob[:6].upper(),
            zip=digits(5),
            epoch=digits(8),
            hex6=blob[:6],
            hex6b=blob[6:12],
        )
        yield text if number % 5 else json.dumps({"role": "user", "content": text})
