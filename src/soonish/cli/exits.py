"""How a command ends: its exit code, and one sentence on stderr. Knows errors by their codes, not who raises them."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, Final, NoReturn, TypeVar

import typer

from soonish.errors import Invalid, SoonishError, Unavailable

T = TypeVar("T")

GOOD: Final = 0
FAILED: Final = 1
USAGE: Final = 2
RUNNING: Final = 3
ADDRESS_IN_USE: Final = 4
DATABASE: Final = 5
INTERRUPTED: Final = 130

_BY_CODE: Final = {
    "wrong_settings": USAGE,
    "data_dir": USAGE,
    "already_running": RUNNING,
    "address_in_use": ADDRESS_IN_USE,
    "no_database": DATABASE,
    "wrong_database": DATABASE,
    "schema": DATABASE,
}


def finish(work: Coroutine[Any, Any, T], away: int = FAILED) -> T:
    """Run the work of a command to its end; an error of ours becomes a sentence and an exit code.

    `away` is the code for an engine that is away: those who stand on the database itself say DATABASE.
    """
    try:
        return asyncio.run(work)
    except SoonishError as error:
        fail(error, away)
    except BrokenPipeError:  # whoever read our output has gone
        sys.stderr.close()
        raise typer.Exit(FAILED) from None


def fail(error: SoonishError, away: int = FAILED) -> NoReturn:
    """Say what is wrong and leave."""
    typer.echo(f"soonish: {error.message}", err=True)
    if isinstance(error, Invalid) and "\n" not in error.message:  # else the message names them
        for field in error.errors:
            typer.echo(f"  {field.field}: {field.message}", err=True)
    raise typer.Exit(_BY_CODE.get(error.code, away if isinstance(error, Unavailable) else FAILED))
