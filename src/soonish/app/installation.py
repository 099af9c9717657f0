"""What an installation makes for itself, once: the keys that seal and sign, and the first key to its API.

Those that seal, and the first key, stand in `keys/` of the data directory, for its owner alone. Knows no slice but
access.
"""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from soonish import telemetry
from soonish.access.actions import start
from soonish.db.pool import Database
from soonish.embedded.folder import Folder
from soonish.errors import FieldError, Unavailable
from soonish.settings import Settings, WrongSettings
from soonish.vault import Hmac, Vault, make_key

KEYS: Final = "secrets-keys"
FIRST_KEY: Final = "admin-key"


def own_keys(settings: Settings, keys: Path) -> str | None:
    """The keys of the setting, or those in the data directory; None where there are none."""
    if settings.secrets_keys is not None:
        return settings.secrets_keys
    file = keys / KEYS
    return file.read_text().strip() if file.exists() else None


def own_vault(settings: Settings, folder: Folder) -> tuple[Vault, bool]:
    """The vault of these keys, which are made where there are none; answers also whether they were."""
    if (found := own_keys(settings, folder.keys)) is not None:
        return Vault.from_setting(found), False
    keep(folder.keys / KEYS, made := make_key())
    return Vault.from_setting(made), True


async def first_start(
    db: Database, vault: Vault, folder: Folder | None = None, *, keys_made: bool = False
) -> str | None:
    """Make what the database needs once; answers the first key to the API if it was made now, and keeps it in `folder`.

    A process without a data directory of its own gives none: then the key is told this once.
    """
    try:
        await start.hmac_key(db, vault)
    except Unavailable as error:
        if keys_made and folder:  # then this database has secrets, and new keys would only hide that theirs are missing
            (folder.keys / KEYS).unlink()
            told = f"is needed, or the file {folder.keys / KEYS}: this database is sealed with keys that are not here"
            raise WrongSettings(FieldError("SOONISH_SECRETS_KEYS", "missing_setting", told)) from error
        telemetry.log.error("keys.missing", remedy=error.message)
    if folder:
        return await start.first_start(db, partial(keep, folder.keys / FIRST_KEY))
    return await start.first_start(db)


class Signature:
    """The installation's key for links and prints: read when it is first needed, and kept.

    It takes a transaction of its own, so a process reads it before it answers requests, where its key is at hand.
    """

    def __init__(self, db: Database, vault: Vault) -> None:
        self._db = db
        self._vault = vault
        self._hmac: Hmac | None = None

    async def __call__(self) -> Hmac:
        if self._hmac is None:
            self._hmac = Hmac(await start.hmac_key(self._db, self._vault))
        return self._hmac

    @property
    def known(self) -> Hmac:
        """The key that was read before; Unavailable where it could not be."""
        if self._hmac is None:
            raise Unavailable("The key of links is sealed under a key that is not here; put that back")
        return self._hmac

    async def read(self) -> None:
        """Read it now; without its key everything that needs no link goes on."""
        with suppress(Unavailable):
            await self()


def keep(path: Path, secret: str) -> None:
    """Write for the owner alone, whole or not at all."""
    fresh = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{secret}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
