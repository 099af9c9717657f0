"""Secrets that sing: texts that a program is told as passwords, tokens and names, and that are looked for after."""

import base64
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote


@dataclass
class Canaries:
    """By name: what is secret, and what is personal (which the database keeps, and nobody else is told)."""

    hidden: dict[str, str] = field(default_factory=dict)
    personal: dict[str, str] = field(default_factory=dict)

    def make(self, name: str, form: str = "{}") -> str:
        """A new secret of this form; each but the first of its characters can be anything."""
        self.hidden[name] = form.format(f"canary{secrets.token_hex(10)}")
        return self.hidden[name]

    def keep(self, name: str, secret: str) -> str:
        """A secret that the program made."""
        assert len(secret) >= 16, name
        self.hidden[name] = secret
        return secret

    def person(self, name: str, form: str = "{}") -> str:
        self.personal[name] = form.format(f"canary{secrets.token_hex(10)}")
        return self.personal[name]

    def found_in(self, data: bytes, *, personal: bool = False, but: frozenset[str] = frozenset()) -> list[str]:
        """The names of those that stand in these bytes, in any form in which one can be read off."""
        wanted = self.hidden | (self.personal if personal else {})
        data = data.lower()  # a mail server may shout
        return [
            name for name, text in wanted.items() if name not in but and any(one.lower() in data for one in forms(text))
        ]

    def found_under(self, folder: Path, but: frozenset[str]) -> tuple[int, list[str]]:
        """How many bytes the files of a folder hold, and which secrets, each with its file."""
        size, found = 0, list[str]()
        for file in sorted(path for path in folder.rglob("*") if path.is_file() and not but & set(path.parts)):
            data = file.read_bytes()
            size += len(data)
            found += [f"{name} in {file.relative_to(folder)}" for name in self.found_in(data)]
        return size, found


def forms(secret: str) -> Iterator[bytes]:
    """As it is, as a database prints bytes, and as it is written in URLs, JSON and headers."""
    plain = secret.encode()
    yield plain
    yield plain.hex().encode()
    yield quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    for shift in range(3):  # in the middle of something longer, base64 depends on where it begins
        text = base64.b64encode(b"x" * shift + plain)
        yield text[4 if shift else 0 : len(text) // 4 * 4 - 4]
