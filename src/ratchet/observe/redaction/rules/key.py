"""Providers' keys and tokens, by their prefixes; JWTs; private keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.observe.redaction.rules.scanned import ScannedText

_BODY = r"[A-Za-z0-9_\-]"
_WORD = r"[A-Za-z0-9]"

FORMS = (
    # OpenAI, Anthropic, OpenRouter, DeepSeek and others
    rf"sk-(?:(?:proj|ant|or|svcacct|admin|None)-)?(?={_BODY}{{0,60}}[0-9]){_BODY}{{16,}}",
    # Stripe and keys of the same form; Ratchet's own keys and attempt tokens
    rf"(?:sk|rk|whsec)_(?:live|test)_{_WORD}{{8,}}",
    rf"whsec_{_WORD}{{16,}}",
    rf"r[ka]_(?={_BODY}{{0,40}}[0-9]){_BODY}{{20,}}",
    # Amazon: key ids
    r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)(?:[ \-\n]?[A-Z0-9]){16}",
    # Google: keys, OAuth tokens and secrets
    r"AIza(?:[ \n]?[A-Za-z0-9_\-]){30,}",
    r"ya29\.[A-Za-z0-9_\-]{20,}",
    r"GOCSPX-[A-Za-z0-9_\-]{20,}",
    # GitHub, GitLab
    rf"gh[pousr]_(?:[ \n]?{_WORD}){{30,}}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|dt|rt|soat|cbt|ptt|ft|imt|agent)-[A-Za-z0-9_\-]{16,}",
    # Slack
    r"xox[abcdeoprs](?:\.xox[bp])?-(?=[A-Za-z0-9\-]{0,40}[0-9])[A-Za-z0-9\-]{10,}",
    r"xapp-[0-9]-[A-Za-z0-9\-]{10,}",
    r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_\-]{20,}",
    # Registries and hubs
    rf"npm_{_WORD}{{30,}}",
    r"pypi-[A-Za-z0-9_\-]{30,}",
    rf"hf_{_WORD}{{25,}}",
    r"dckr_pat_[A-Za-z0-9_\-]{20,}",
    # Other providers
    rf"gsk_{_WORD}{{30,}}",
    rf"(?:xai|nvapi|pplx|fw|lsv2_pt|lsv2_sk)[-_]{_BODY}{{24,}}",
    rf"r8_{_WORD}{{30,}}",
    r"SG\.[A-Za-z0-9_\-]{16,60}\.[A-Za-z0-9_\-]{16,}",
    r"do[opr]_v1_[a-f0-9]{32,}",
    r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
    r"sq0(?:atp|csp|idp)-[A-Za-z0-9_\-]{20,}",
    r"lin_api_[A-Za-z0-9]{30,}",
    r"(?:pk|sk)-lf-[a-f0-9\-]{30,}",
    r"hvs\.[A-Za-z0-9_\-]{20,}",
    r"dapi[a-f0-9]{32}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}",
    # JWT: two or three parts in base64, the first a JSON object
    r"eyJ[A-Za-z0-9_\-]{8,2000}\.[A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*)?(?:\.[A-Za-z0-9_\-]+){0,2}",
)

_FORMS = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(FORMS)})")

PREFIXES = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-|[srw][khe][sc_]*_(?:live_|test_)?|rk_|ra_|AKIA|ASIA|AIza|gh[pousr]_"
    r"|github_pat_|glpat-|xox[abeoprs]-|xapp-|npm_|pypi-|hf_|gsk_|xai-|eyJ|ya29\.|SG\.)"
    r"[A-Za-z0-9_\-.]{2,}\Z"
)
"""The beginning of a key at the end of a text."""

_SHORT = re.compile(r"-(?:(?<=sk-)|(?<=pat-)|(?<=xox.-)|----)|A(?:KIA|SIA|Iza)").search
"""Prefixes of keys that need not contain a long word."""

_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.*?-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|.*)",
    re.DOTALL,
)


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find keys and tokens."""
    text = scanned.text
    if not scanned.has_word(15) and not _SHORT(text):
        return
    for match in _FORMS.finditer(text):
        yield match.span()
    if "PRIVATE KEY" in text:
        for match in _PRIVATE.finditer(text):
            yield match.span()
