"""Secrets that were made up to be looked for, and all the ways in which one could be written."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from typing import Any
from urllib.parse import quote, quote_plus

# As real ones: letters of base64, of which some are written otherwise in a URL, in HTML and in JSON.
CANARIES = {
    name: f"{name}CANARY/wJalr+XUtnFEMI=K7MDENG&bPxRfiCY{number:02}"
    for number, name in enumerate(
        (
            "accessKeyId", "secretKey", "sessionToken", "sasToken", "accountKey", "bearerToken", "clientSecret",
            "headerSecret", "uriPassword", "sqlPassword", "signature", "securityToken", "environment", "proxyPassword",
        )
    )
}  # fmt: skip
# A message may cut a text: a part of a secret is a leak too.
_PART = 14
_DEFLATED = re.compile(r'"base64": ?"([A-Za-z0-9+/=]+)", ?"deflate": ?true')
_DATA = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")


def leaks(output: Any) -> list[str]:
    """The names of the canaries that an output holds, in whatever writing."""
    texts = [_text(output)]
    texts += [zlib.decompress(base64.b64decode(match)).decode("latin-1") for match in _DEFLATED.findall(texts[0])]
    whole = "\n".join(texts)
    return [name for name, canary in CANARIES.items() if any(form in whole for form in _forms(canary))]


def _text(output: Any) -> str:
    if isinstance(output, bytes):
        return output.decode("latin-1")
    return output if isinstance(output, str) else json.dumps(output, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> str:
    return bytes(value).decode("latin-1") if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _forms(canary: str) -> set[str]:
    """The canary plain, escaped, encoded, and cut."""
    plain = {canary, canary[:_PART], canary[-_PART:]}
    escaped = {
        code(secret) for secret in plain for code in (html.escape, lambda text: quote(text, safe=""), quote_plus)
    }
    encoded = {canary.encode().hex(), canary.encode().hex().upper()}
    for before in range(3):  # how the letters of base64 fall depends on where the canary stands
        for code in (base64.b64encode, base64.urlsafe_b64encode):
            letters = code(b" " * before + canary.encode()).decode()
            encoded.add(letters[4 if before else 0 : -4])
    return plain | escaped | encoded
