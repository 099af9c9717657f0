"""`soonish doctor`: look at everything that must be right, and say what to do where it is not. Changes nothing."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import typer

from soonish.cli import checks, exits, show
from soonish.cli.checks import Check
from soonish.cli.checks_of_database import of_database
from soonish.settings import Settings, WrongSettings

HERE: Final = {
    "directory": checks.directory,
    "space": checks.space,
    "lock": checks.lock,
    "port": checks.port,
    "temporal": checks.temporal,
    "tzdata": checks.tzdata,
    "SMTP": checks.smtp,
    "Apprise": checks.apprise,
}


async def doctor(environ: Mapping[str, str], *, as_json: bool) -> None:
    """Print each check as it is done; exit 1 if any fails."""
    found: list[tuple[str, Check]] = []
    async for name, check in examine(environ):
        found.append((name, check))
        if not as_json:
            show.verdict(check.state, name, check.text, check.remedy)
    if as_json:
        show.as_json([{"name": name, **check._asdict()} for name, check in found])
    if any(check.state == "fail" for _, check in found):
        raise typer.Exit(exits.FAILED)


async def examine(environ: Mapping[str, str]) -> AsyncIterator[tuple[str, Check]]:
    """All checks, by name."""
    try:
        settings = Settings.read(environ)
    except WrongSettings as error:
        yield "settings", Check("fail", error.message, "Correct them; nothing else can be looked at before.")
        return
    yield "settings", Check("ok", "all are known and good")
    for name, look in HERE.items():
        yield name, await look(settings)
    async for name, check in of_database(settings):
        yield name, check
