"""`soonish migrate --rekey`: bring all secrets under the newest key. A running service does it, this follows."""

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Final

import typer

from soonish.app.installation import own_keys
from soonish.app.parts import SECRETS
from soonish.cli import exits, show
from soonish.db.pool import Database
from soonish.embedded.folder import Folder
from soonish.embedded.postgres import running_url
from soonish.errors import Unavailable
from soonish.ops.actions.secrets import count_by_key
from soonish.ops.actions.system import Rekeying, find_rekeying, rekey
from soonish.settings import Settings
from soonish.vault import Vault

EVERY: Final = 0.2  # seconds between two looks at how far it is
WONDER: Final = 10.0  # seconds after which it is said that nobody seems to do it


async def seal_anew(environ: Mapping[str, str]) -> None:
    """Ask the running service to bring all secrets under the first key, and follow it to the end."""
    settings = Settings.read(environ)
    url = settings.database_url or running_url(settings.data_dir)
    if url is None:
        raise Unavailable("Nobody is there to do it; start `soonish up`, then run this again")
    db = await Database.open(url)
    try:
        vault = Vault.from_setting(own_keys(settings, Folder(settings.data_dir).keys))
        wanted = await rekey(db, vault, SECRETS)
        ended = await _followed(db, wanted)
        counts = await count_by_key(db, SECRETS)
    finally:
        await db.close()
    show.line("sealed", f"{ended.done} under {vault.writing_key_id}")
    if left := counts.total() - counts[vault.writing_key_id]:
        why = "their key is not here; put it back" if ended.unreadable else "restart all with the new key in front"
        show.line("left", f"{left} under other keys: {why}, then run this again")
        raise typer.Exit(exits.FAILED)


async def _followed(db: Database, wanted: int) -> Rekeying:
    """Until a worker has done it."""
    progress, began = show.Progress("sealing", wanted), monotonic()
    with progress:
        while True:
            state = await find_rekeying(db)
            if state and not state.running:
                return state
            progress.at(state.done if state else 0)
            if monotonic() - began > WONDER and not (state and state.done):
                progress.note("nobody works on it yet: is a `work` or `up` process running?")
            await asyncio.sleep(EVERY)
