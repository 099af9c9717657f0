"""`soonish sign-in`: a login link for whoever may run commands beside the database, also where every key is lost."""

from collections.abc import Mapping

from soonish.access.actions.start import first_link
from soonish.cli import show
from soonish.cli.database import database
from soonish.cli.server import own_url
from soonish.db.pool import Database
from soonish.settings import Settings


async def sign_in(environ: Mapping[str, str]) -> None:
    """Make a link that signs in as the operator, once. The key it takes is access to the database itself."""
    settings = Settings.read(environ)
    async with database(settings) as url:
        db = await Database.open(url)
        try:
            link = await first_link(db, _public_url(settings))
        finally:
            await db.close()
    show.line("sign in", link)


def _public_url(settings: Settings) -> str:
    """What was set; else where the process on the data directory listens, which its command line may have said."""
    return own_url(settings) if settings.public_url == settings.bind.url else settings.public_url
