"""The data directory: what lies where, and that nobody else looks into it.

    pg/ the database, temporal/ the workflows, shelf/ fetched media, keys/ secrets, run/ lock, sockets, ports, logs/

Knows no file in these folders.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from soonish.errors import Unavailable

PRIVATE = 0o700
PARTS = ("pg", "temporal", "shelf", "keys", "run", "logs")


@dataclass(frozen=True, slots=True)
class Folder:
    """A data directory; `prepare` makes what is missing of it."""

    root: Path

    @classmethod
    def prepare(cls, root: Path) -> Self:
        """Make the folders that are missing, readable by nobody else.

        The mode of a directory that was there before stays: it may be anything that somebody named by mistake.
        """
        folder = cls(root.absolute())
        try:
            folder.root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            for part in PARTS:
                (folder.root / part).mkdir(mode=PRIVATE, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"The data directory {root} cannot be used: {error.strerror}; name another with --data-dir",
                code="data_dir",
            ) from error
        return folder

    @property
    def pg(self) -> Path:
        return self.root / "pg"

    @property
    def temporal(self) -> Path:
        return self.root / "temporal"

    @property
    def shelf(self) -> Path:
        return self.root / "shelf"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"
