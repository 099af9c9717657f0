"""`soonish migrate`: bring the schema of a database to this version, or say whether it is there."""

from collections.abc import Mapping

import typer

from soonish.cli import exits, show
from soonish.cli.database import database
from soonish.db import migrate as schema
from soonish.settings import Settings


async def migrate(environ: Mapping[str, str]) -> None:
    """Apply what is missing; a line a version."""
    async with database(Settings.read(environ), make=True) as url:
        applied = await schema.migrate(url)
    for version in applied:
        show.line("applied", version)
    if not applied:
        show.say("up to date")


async def check(environ: Mapping[str, str]) -> None:
    """Change nothing; exit 5 where something is to do."""
    async with database(Settings.read(environ)) as url:
        state = await schema.check(url)
    if state != "current":
        typer.echo(f"soonish: {schema.REMEDY[state]}", err=True)
        raise typer.Exit(exits.DATABASE)
    show.say("up to date")
