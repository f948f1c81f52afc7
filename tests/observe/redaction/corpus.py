"""Planted secrets: made by a seed, with checksums that hold, and put where secrets turn up.

No secret here was ever anybody's.
"""

# ruff: noqa: RUF001 - look-alikes are meant

from __future__ import annotations

import base64
import json
import random
import string
import urllib.parse
from collections.abc import Callable, Iterator
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
BASE64URL = ALNUM + "-_"


class Planted(NamedTuple):
    """A text with a secret in it."""

    kind: str
    place: str
    text: str
    needles: tuple[str, ...]
    """What must not be left of the secret, as it stands in the text."""


def some(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(count))


def luhn(digits: str) -> str:
    """Digits with the check digit."""
    total = sum(
        each if number % 2 else each * 2 - 9 * (each > 4)
        for number, each in enumerate(map(int, reversed(digits)))
    )
    return digits + str(-total % 10)


def card(rng: random.Random) -> str:
    prefix, length = rng.choice(
        [("4", 16), ("51", 16), ("55", 16), ("2223", 16), ("37", 15), ("6011", 16), ("3530", 16)]
    )
    return luhn(prefix + some(rng, string.digits, length - 1 - len(prefix)))


def grouped_card(rng: random.Random) -> str:
    digits = card(rng)
    sizes = (4, 6, 5) if len(digits) == 15 else (4, 4, 4, 4)
    parts, at = [], 0
    for size in sizes:
        parts.append(digits[at : at + size])
        at += size
    return rng.choice([" ", "-", ".", "  "]).join(parts)


def iban(rng: random.Random) -> str:
    country, length, letters = rng.choice(
        [("DE", 22, 0), ("FR", 27, 0), ("GB", 22, 4), ("NL", 18, 4), ("ES", 24, 0), ("CH", 21, 0)]
    )
    body = some(rng, string.ascii_uppercase, letters)
    body += some(rng, string.digits, length - 4 - letters)
    number = int("".join(str(int(each, 36)) for each in body + country + "00"))
    return f"{country}{98 - number % 97:02d}{body}"


def grouped_iban(rng: random.Random) -> str:
    whole = iban(rng)
    return " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))


def email(rng: random.Random) -> str:
    name = some(rng, string.ascii_lowercase, 6)
    host = some(rng, string.ascii_lowercase, 7)
    middle = rng.choice(["", ".", "+", "_"])
    return f"{name}{middle}{rng.randint(1, 99)}@{host}.{rng.choice(['com', 'de', 'co.uk', 'io'])}"


def phone(rng: random.Random) -> str:
    a, b, c = rng.randint(200, 989), rng.randint(200, 989), rng.randint(1000, 9999)
    return rng.choice(
        [
            f"+1 {a} {b} {c}",
            f"({a}) {b}-{c}",
            f"{a}-{b}-{c}",
            f"+49 30 {rng.randint(1000000, 99999999)}",
            f"+44 20 7{rng.randint(100, 999)} {c}",
            f"0171 {rng.randint(1000000, 9999999)}",
            f"06 {' '.join(str(rng.randint(10, 99)) for _ in range(4))}",
        ]
    )


def jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": some(rng, string.digits, 8), "iat": rng.randint(1, 2**31)}
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.{some(rng, BASE64URL, 43)}"


def private_key(rng: random.Random) -> str:
    body = "\n".join(some(rng, ALNUM + "+/", 64) for _ in range(4))
    kind = rng.choice(["RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "])
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def ip4(rng: random.Random) -> str:
    return (
        f"{rng.randint(11, 126)}.{rng.randint(1, 254)}.{rng.randint(1, 254)}.{rng.randint(1, 254)}"
    )


def ip6(rng: random.Random) -> str:
    groups = [f"{rng.randint(0x1000, 0xFFFF):x}" for _ in range(8)]
    return rng.choice([":".join(groups), f"2001:db8:{groups[2]}::{groups[3]}"])


KEYS: dict[str, Callable[[random.Random], str]] = {
    "openai": lambda rng: "sk-" + some(rng, ALNUM, 48),
    "openai_project": lambda rng: "sk-proj-" + some(rng, BASE64URL, 100) + "A1",
    "anthropic": lambda rng: "sk-ant-api03-" + some(rng, BASE64URL, 93) + "AA",
    "openrouter": lambda rng: "sk-or-v1-" + some(rng, HEX, 64),
    "aws": lambda rng: (
        rng.choice(["AKIA", "ASIA"]) + some(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)
    ),
    "google": lambda rng: "AIza" + some(rng, BASE64URL, 34) + "Q",
    "google_oauth": lambda rng: "ya29." + some(rng, BASE64URL, 80),
    "github": lambda rng: (
        rng.choice(["ghp_", "gho_", "ghs_", "ghu_", "ghr_"]) + some(rng, ALNUM, 36)
    ),
    "github_pat": lambda rng: f"github_pat_{some(rng, ALNUM, 22)}_{some(rng, ALNUM, 59)}",
    "gitlab": lambda rng: "glpat-" + some(rng, BASE64URL, 19) + "x",
    "slack": lambda rng: (
        f"xoxb-{some(rng, '123456789', 12)}-{some(rng, '123456789', 12)}-{some(rng, ALNUM, 24)}"
    ),
    "stripe": lambda rng: rng.choice(["sk_live_", "rk_live_", "sk_test_"]) + some(rng, ALNUM, 24),
    "ratchet": lambda rng: "rk_" + some(rng, ALNUM, 40),
    "ratchet_attempt": lambda rng: "ra_" + some(rng, BASE64URL, 60) + "9",
    "huggingface": lambda rng: "hf_" + some(rng, ALNUM, 34),
    "npm": lambda rng: "npm_" + some(rng, ALNUM, 36),
    "sendgrid": lambda rng: f"SG.{some(rng, BASE64URL, 22)}.{some(rng, BASE64URL, 43)}",
    "groq": lambda rng: "gsk_" + some(rng, ALNUM, 52),
    "jwt": jwt,
}
"""What is a secret wherever it stands."""

PERSONAL: dict[str, Callable[[random.Random], str]] = {
    "email": email,
    "phone": phone,
    "card": card,
    "grouped_card": grouped_card,
    "iban": iban,
    "grouped_iban": grouped_iban,
    "ip4": ip4,
    "ip6": ip6,
}

PROSE = (
    "My details changed: {} is what you should use from now on.",
    "Ticket closed. The customer wrote {}, then hung up",
    "Bitte notieren Sie {} für Rückfragen, danke schön!",
    "a) see notes\nb) {}\nc) nothing else",
    "| field | value |\n|---|---|\n| contact | `{}` |",
    "**Important**: [{}] (do not share), 😀 thanks",
)
CODE = (
    'client = make_client("{}")  # remove before commit',
    "curl -s https://api.example.test/v1/things -H 'X-Auth: {}' --data @body.json",
    'const config = {{ value: "{}", retries: 3 }};',
    "export THING={}\npython main.py --verbose",
    "<item id='3'>{}</item>",
)
NAMED = (
    'password = "{}"',
    "DB_PASSWORD={}",
    'api_key: "{}"',
    "the password is {} by the way",
    "client_secret={}&grant_type=client_credentials",
    '{{"token": "{}"',
    "Server=db.internal;User Id=app;Password={};Encrypt=true",
    "AWS_SECRET_ACCESS_KEY={}",
    "Set-Cookie: session={}; Path=/; HttpOnly",
    "curl -H 'Authorization: Bearer {}' https://api.example.test/v1",
    "postgresql://app:{}@db.internal:5432/shop",
    "https://deploy:{}@git.example.test/team/app.git",
)
FIELDS = (
    "password",
    "api_key",
    "apiKey",
    "Authorization",
    "x-api-key",
    "client_secret",
    "accessToken",
    "refresh_token",
    "set-cookie",
    "private_key",
    "db_password",
    "passphrase",
)


def nested(value: str, depth: int) -> str:
    """JSON text within JSON text."""
    text = json.dumps({"note": value, "n": [1, {"ok": True}]})
    for _ in range(depth):
        text = json.dumps({"role": "tool", "content": text})
    return text


def full_width(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def zero_width(text: str) -> str:
    return "\u200b".join(text)


def look_alike(text: str) -> str:
    return text.translate(str.maketrans("aeopcxAEOPCX", "аеорсхАЕОРСХ"))


def percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


def in_base64(text: str) -> str:
    return base64.b64encode(f"value: {text}".encode()).decode()


DISGUISES: dict[str, Callable[[str], str]] = {
    "full_width": full_width,
    "zero_width": zero_width,
    "percent": percent,
    "escaped": escaped,
    "base64": in_base64,
    "url_quoted": lambda text: urllib.parse.quote(text, safe=""),
    "twice_quoted": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "entities": lambda text: "".join(f"&#{ord(c)};" for c in text),
}


def needles(shown: str) -> tuple[str, ...]:
    """The secret, and either half of it when it is long enough to be worth something."""
    half = len(shown) // 2
    return (shown, shown[:half], shown[half:]) if half >= 8 else (shown,)


def planted(seed: int = 7, rounds: int = 3) -> Iterator[Planted]:
    """Secrets of every kind in every kind of place."""
    rng = random.Random(seed)
    for _ in range(rounds):
        for kind, make in {**KEYS, **PERSONAL, "private_key": private_key}.items():
            secret = make(rng)
            prose = rng.choice(PROSE).format(secret)
            yield Planted(kind, "prose", prose, needles(secret))
            if kind != "private_key":
                yield Planted(kind, "code", rng.choice(CODE).format(secret), needles(secret))
            for depth in (0, 2):
                shown = json.dumps(secret)[1:-1]
                yield Planted(kind, f"json_{depth}", nested(prose, depth), needles(shown)[:1])
            cut = nested(prose, 1)[: -rng.randint(1, 12)]
            yield Planted(kind, "cut_json", cut, needles(secret)[:1])
            if kind not in ("grouped_card", "grouped_iban", "phone", "private_key"):
                url = f"https://app.example.test/reset?to={secret}&lang=en#top"
                yield Planted(kind, "url", url, needles(secret))
            for disguise, wear in DISGUISES.items():
                # An IBAN in full-width letters is one; a key in them opens nothing.
                if kind in KEYS and disguise == "full_width":
                    continue
                if kind == "private_key" and disguise in ("base64", "url_quoted"):
                    continue
                shown = wear(secret)
                if shown != secret:
                    text = f"please use {shown} for this"
                    yield Planted(kind, disguise, text, needles(shown)[:1])
        shown = look_alike(email(rng))
        yield Planted("email", "look_alike", f"mail {shown} soon", (shown,))
        for form in NAMED:
            secret = some(rng, ALNUM, 10) + "!7z"
            yield Planted("named", form[:12], form.format(secret), (secret, secret[:8]))
        for field in FIELDS:
            secret = some(rng, ALNUM, 12)
            for depth in (0, 1, 2, 4):
                body = json.dumps({"user": {"id": 4, field: secret}, "list": [{field: secret}]})
                for _ in range(depth):
                    body = json.dumps([{"content": body}])
                yield Planted("field", f"{field}_{depth}", body, (secret,))
            broken = json.dumps({"user": {"id": 4, field: secret, "more": "words"}})[:-9]
            yield Planted("field", f"{field}_cut", broken, (secret,))
        for kind in ("openai", "github", "card", "iban", "email", "jwt"):
            secret = {**KEYS, **PERSONAL}[kind](rng)
            at = len(secret) * 2 // 3
            text = f"it is {secret[:at]}… [{rng.randint(1, 999)} more characters]"
            yield Planted(kind, "cut_at_limit", text, (secret[: at - 1],))
