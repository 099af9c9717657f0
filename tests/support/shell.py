"""A command in this process: what it prints and how it ends, in some milliseconds. For those that start nothing."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from typer.testing import CliRunner

from soonish.cli.commands import app
from tests.support import service


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def shell(*arguments: str, environ: Mapping[str, str] | None = None, text: str | None = None) -> Done:
    """Run it under the settings of a test's process, and these."""
    settings = service.environ() | dict(environ or {})
    given = {name: settings.get(name) for name in {*os.environ, *settings}}
    with ThreadPoolExecutor(1) as apart:  # where no event loop runs yet: a command runs its own
        done = apart.submit(CliRunner().invoke, app, arguments, text, given, prog_name="soonish").result()
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)
