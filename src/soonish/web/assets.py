"""How the console looks: its stylesheet, scripts and pictures.

Files are read once, held in memory, and cached for ever by their version, which stands in the path: so scripts that
import each other stay of one version. Knows no page.
"""

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("static")


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, as it is sent."""

    type: bytes
    body: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    return {path.name: _read(path) for path in sorted(FOLDER.iterdir()) if path.is_file()}


@cache
def version() -> str:
    digest = hashlib.sha256()
    for name, asset in assets().items():
        digest.update(name.encode() + asset.body)
    return digest.hexdigest()[:12]


def url(name: str) -> str:
    """The address of a file; a wrong name is found by the first page that uses it."""
    assets()[name]
    return f"/static/{version()}/{name}"


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0] or "text/plain"
    charset = "; charset=utf-8" if kind.startswith("text/") else ""
    return Asset((kind + charset).encode(), body, gzip.compress(body, mtime=0))
