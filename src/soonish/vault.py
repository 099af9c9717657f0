"""Secrets: sealed for the database, and tokens that cannot be guessed.

A sealed value says which key opens it, so that keys can be rotated without haste, and opens only in the place that it
was sealed for. Knows keys and bytes, nothing of tables, and logs nothing.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from soonish.errors import FieldError, Unavailable
from soonish.settings import WrongSettings

KEY_BYTES: Final = 32
_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_TOKEN_LENGTH: Final = 1_000


class Vault:
    """AES-256-GCM under keys with ids: the first writes, all read."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self.writing_key_id = next(iter(keys))

    @classmethod
    def from_setting(cls, text: str | None) -> Self:
        """The vault of SOONISH_SECRETS_KEYS; without a key, or with a bad one, the program must not start."""
        keys: dict[str, bytes] = {}
        for part in filter(None, (text or "").split(",")):
            key_id, key = _key(part.strip())
            if key_id in keys:
                raise _wrong(f"names the key {key_id!r} twice")
            keys[key_id] = key
        if not keys:
            raise _wrong(f"is needed; make one with: echo k1:$(openssl rand -base64 {KEY_BYTES})")
        return cls(keys)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Those that can be read; the first writes."""
        return tuple(self._keys)

    def seal(self, plain: bytes, context: Sequence[str | int]) -> bytes:
        """Encrypt for one place: workspace, table, column and row."""
        head, nonce = _head(self.writing_key_id), os.urandom(_NONCE_BYTES)
        return head + nonce + self._keys[self.writing_key_id].encrypt(nonce, plain, head + _place(context))

    def unseal(self, blob: bytes, context: Sequence[str | int]) -> bytes:
        """Decrypt; without its key it is Unavailable, so that whoever needs it waits until the key is back."""
        name = key_id(blob)
        if name not in self._keys:
            raise Unavailable(f"A secret is sealed under the key {name!r}; put that back into SOONISH_SECRETS_KEYS")
        head = _head(name)
        nonce, sealed = blob[len(head) : len(head) + _NONCE_BYTES], blob[len(head) + _NONCE_BYTES :]
        try:
            return self._keys[name].decrypt(nonce, sealed, head + _place(context))
        except (InvalidTag, ValueError) as error:
            raise Unavailable(f"A secret does not open: {name!r} is another key now, or the row was changed") from error


def key_id(blob: bytes) -> str:
    """The id of the key that a value is sealed under."""
    if len(blob) < 2 + _NONCE_BYTES or blob[:1] != _VERSION:
        raise ValueError("these bytes are no sealed value")
    return blob[2 : 2 + blob[1]].decode("ascii", "replace")


def make_key() -> str:
    """A new key as SOONISH_SECRETS_KEYS takes it."""
    return f"k{secrets.token_hex(4)}:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}"


def new_token(prefix: str = "") -> str:
    """256 random bits that fit into a URL."""
    return prefix + secrets.token_urlsafe(32)


def hash_token(token: str) -> bytes:
    """What is kept of a token. It is random enough that a plain hash can be looked up and not be guessed."""
    return hashlib.sha256(token.encode()).digest()


class Claim(NamedTuple):
    """What a good token says."""

    workspace_id: int
    ids: tuple[int | str, ...]
    version: int
    expires: datetime | None


class Hmac:
    """Tokens that need no row: what they say stands in them, and cannot be changed."""

    def __init__(self, key: bytes) -> None:
        self._master = key

    def token(
        self, purpose: str, workspace_id: int, *ids: int | str, version: int = 1, expires: datetime | None = None
    ) -> str:
        """A token for one purpose. Expiry counts in whole seconds; a new version makes the old tokens void."""
        ends = None if expires is None else int(expires.timestamp())
        return self._signed(purpose, [workspace_id, list(ids), version, ends])

    def check(self, purpose: str, token: str, now: datetime) -> Claim | None:
        """What the token says, or None where it was not made here for this purpose, or is over."""
        try:
            said = json.loads(_decode(token.partition(".")[0][:_TOKEN_LENGTH]))
            genuine = hmac.compare_digest(self._signed(purpose, said).encode(), token.encode())
        except (ValueError, RecursionError):
            return None
        if not genuine:
            return None
        workspace_id, ids, version, ends = said
        expires = None if ends is None else datetime.fromtimestamp(ends, UTC)
        return None if expires and expires <= now else Claim(workspace_id, tuple(ids), version, expires)

    def _signed(self, purpose: str, said: object) -> str:
        """Written in one way only, so that a token cannot be respelled."""
        text = json.dumps(said, separators=(",", ":")).encode()
        key = hmac.digest(self._master, purpose.encode(), "sha256")
        return f"{_encode(text)}.{_encode(hmac.digest(key, text, 'sha256'))}"


def _key(part: str) -> tuple[str, bytes]:
    name, colon, text = part.partition(":")
    if not colon or not _KEY_ID.fullmatch(name):
        raise _wrong("has a key without an id; write id:base64, the id in letters, digits, - or _")
    try:
        key = base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise _wrong(f"has a key {name!r} that is not {KEY_BYTES} bytes in base64")
    return name, key


def _wrong(message: str) -> WrongSettings:
    return WrongSettings(FieldError("SOONISH_SECRETS_KEYS", "wrong_setting", message))


def _head(name: str) -> bytes:
    return _VERSION + bytes([len(name)]) + name.encode()


def _place(context: Sequence[str | int]) -> bytes:
    return json.dumps(list(context)).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
