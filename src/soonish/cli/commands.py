"""The commands of `soonish` and what they take. What one does is loaded when it is called, so that help is quick."""

import os
from pathlib import Path
from typing import Annotated

import typer

from soonish.cli.exits import DATABASE, finish

Bind = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where to listen (SOONISH_BIND).")]
DataDir = Annotated[Path | None, typer.Option(metavar="PATH", help="Where everything is kept (SOONISH_DATA_DIR).")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Number = Annotated[int, typer.Argument(metavar="ID", min=1, help="Its number.")]
KindName = Annotated[str, typer.Argument(metavar="KIND", help="A kind of due items, or '*' for all.")]

app = typer.Typer(
    name="soonish",
    help="The right people, and the right machines, told at the right moment.",
    no_args_is_help=True,
    rich_markup_mode=None,  # drawing boxes costs four times the start
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
due = typer.Typer(help="What is due, what died, and what is paused.", rich_markup_mode=None)
backup = typer.Typer(help="Save everything to one file, and start from it elsewhere.", rich_markup_mode=None)
why = typer.Typer(help="Why something happened, or did not: in a sentence and step by step.", rich_markup_mode=None)
importing = typer.Typer(help="Take over what you have elsewhere.", rich_markup_mode=None)
app.add_typer(due, name="due")
app.add_typer(why, name="why", no_args_is_help=True)
app.add_typer(importing, name="import", no_args_is_help=True)
app.add_typer(backup, name="backup", no_args_is_help=True)


def run() -> None:
    app()


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"soonish {version('soonish')}")
        raise typer.Exit


@app.callback()
def soonish(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


@app.command()
def up(bind: Bind = None, data_dir: DataDir = None) -> None:
    """Run everything on this machine, in one go."""
    from soonish.cli.running import up

    up(_environ(bind, data_dir))


@app.command()
def serve(bind: Bind = None) -> None:
    """Run the API and the console alone (needs SOONISH_DATABASE_URL)."""
    from soonish.cli.running import serve

    serve(_environ(bind))


@app.command()
def work(
    lanes: Annotated[
        str | None, typer.Option(metavar="NAMES", help="control, people, bulk; by comma. All if not given.")
    ] = None,
) -> None:
    """Run loops and workflows alone (needs SOONISH_DATABASE_URL)."""
    from soonish.cli.running import work

    work(_environ(), lanes)


@app.command()
def migrate(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 5 if something is to do.")] = False,
    rekey: Annotated[bool, typer.Option("--rekey", help="Seal all secrets anew under the first key.")] = False,
) -> None:
    """Bring the database to the schema of this version."""
    if rekey:
        from soonish.cli.rekeying import seal_anew

        finish(seal_anew(_environ()), DATABASE)
        return
    from soonish.cli import migrating

    finish(migrating.check(_environ()) if check else migrating.migrate(_environ()), DATABASE)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Look at all that must be right; say what to do where not."""
    from soonish.cli.doctor import doctor

    finish(doctor(_environ(), as_json=as_json))


@app.command("sign-in")
def sign_in() -> None:
    """Print a link that signs in as the operator, once.

    It needs the database and no key: for a server whose first key is lost.
    """
    from soonish.cli.signing_in import sign_in

    finish(sign_in(_environ()), DATABASE)


@app.command()
def api(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="GET, POST, PATCH, PUT or DELETE.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="Such as /v1/me.")],
    fields: Annotated[list[str] | None, typer.Argument(metavar="[FIELD=VALUE]...", help="A value may be JSON.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="The body; '-' reads standard input.")] = None,
    if_match: Annotated[int | None, typer.Option(metavar="VERSION", help="Only if it still has this version.")] = None,
) -> None:
    """Call any operation of the API.

    For instance: soonish api POST /v1/login-links role=read minutes=30
    """
    from soonish.cli.api import call

    finish(call(method, path, fields or (), json, if_match))


@app.command()
def receiver(
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8989",
    answer: Annotated[
        list[int] | None,
        typer.Option(metavar="STATUS", help="One after the other; the last one stays. 200 if not given."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(metavar="WHSEC", help="Check signatures by it; '-' reads it from standard input."),
    ] = None,
) -> None:
    """Receive webhooks, to try things out: a line each, until Ctrl-C.

    For instance: soonish receiver --answer 503 --answer 200
    """
    from soonish.cli.receiving import receive

    finish(receive(bind, answer or [200], secret or []))


@app.command()
def send(
    to: Annotated[str, typer.Option(metavar="WHO", help="A person: their id, the id you gave them, or their email.")],
    title: Annotated[str, typer.Option(metavar="TEXT", help="The first line.")],
    body: Annotated[str, typer.Option(metavar="TEXT", help="The rest.")],
    level: Annotated[str, typer.Option(metavar="LEVEL", help="info, warning or critical.")] = "info",
    at: Annotated[str | None, typer.Option(metavar="INSTANT", help="Later, such as 2026-12-01T18:00:00Z.")] = None,
) -> None:
    """Tell somebody something, at once or later.

    At once it waits for the end, 30 seconds at most, and prints a line a delivery: channel, state, reason, late_ms.
    """
    from soonish.cli.send import Letter, send

    finish(send(Letter(to, title, body, level, at)))


@why.command()
def delivery(number: Number, as_json: AsJson = False) -> None:
    """Why a delivery went as it did."""
    from soonish.cli.why import why

    finish(why("delivery", number, as_json=as_json))


@why.command("due")
def due_item(number: Number, as_json: AsJson = False) -> None:
    """Why a due item is where it is, or how it ended."""
    from soonish.cli.why import why

    finish(why("due", number, as_json=as_json))


@why.command()
def person(
    number: Number,
    cause: Annotated[str | None, typer.Option(metavar="PREFIX", help="Only about this, such as message/12.")] = None,
    since: Annotated[str | None, typer.Option(metavar="INSTANT", help="Only what was written from then on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="INSTANT", help="Only what was written before.")] = None,
    as_json: AsJson = False,
) -> None:
    """What a person was told and what not; with a cause why they heard nothing of that."""
    from soonish.cli.why import why

    finish(why("person", number, as_json=as_json, cause_prefix=cause, since=since, until=until))


@importing.command()
def people(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV with names of columns above, or JSON lines.")],
) -> None:
    """Make and change people from a file; safe to repeat where rows have an external_id.

    Rows that were refused are written to FILE.refused.jsonl, each with its errors.
    """
    from soonish.cli.importing import import_people

    finish(import_people(file))


@due.callback(invoke_without_command=True)
def due_table(
    context: typer.Context,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only this kind.")] = None,
    lane: Annotated[str | None, typer.Option(metavar="LANE", help="control, people or bulk.")] = None,
    overdue: Annotated[bool, typer.Option("--overdue", help="Only what should have happened.")] = False,
    dead: Annotated[bool, typer.Option("--dead", help="Only what failed for good.")] = False,
    past: Annotated[bool, typer.Option("--past", help="What ended, newest first.")] = False,
    system: Annotated[bool, typer.Option("--system", help="Only the system's own, as the operator.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """What is due, soonest first."""
    from soonish.cli.due import Wanted, table

    if (dead or past) and (lane or overdue):
        told = "--lane" if lane else "--overdue"
        raise typer.BadParameter(f"{told} is about what is still to come; leave it out beside --past and --dead")
    state, fate = "overdue" if overdue else None, "dead" if dead else None
    context.obj = wanted = Wanted(kind, lane, state, dead or past, fate, system, limit)
    if context.invoked_subcommand is None:
        finish(table(wanted, as_json=as_json))


@due.command()
def retry(ids: Annotated[list[int], typer.Argument(metavar="ID...", help="From `soonish due --dead`.")]) -> None:
    """Give dead items a new life."""
    from soonish.cli.due import retry

    finish(retry(ids))


@due.command()
def pause(
    kind: KindName,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Shown to everybody who looks.")] = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="In all workspaces, as the operator.")] = False,
) -> None:
    """Hold all items of a kind until they are resumed."""
    from soonish.cli.due import pause

    finish(pause(kind, reason, everywhere=everywhere))


@due.command()
def resume(kind: KindName) -> None:
    """Let the items of a kind go on."""
    from soonish.cli.due import resume

    finish(resume(kind))


@due.command()
def watch(context: typer.Context) -> None:
    """The table, kept up to date, until Ctrl-C.

    Filters stand before it: soonish due --kind system.rekey watch
    """
    from soonish.cli.due import watch

    finish(watch(context.obj))


@backup.command()
def create(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to write, such as soonish.tar.")],
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="The keys too: then the file opens every secret.")
    ] = False,
) -> None:
    """Write all into one archive, while everything runs."""
    from soonish.cli.backup import create

    finish(create(_environ(), path, with_keys=with_keys), DATABASE)


@backup.command()
def restore(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="What `backup create` wrote.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on at once; without it all is paused.")] = False,
) -> None:
    """Fill an empty data directory from an archive.

    All is paused then, until `soonish due resume '*'`.
    """
    from soonish.cli.backup import restore

    finish(restore(_environ(), path, resume=resume), DATABASE)


def _environ(bind: str | None = None, data_dir: Path | None = None) -> dict[str, str]:
    """The environment, with what the command line says over it."""
    given = {"SOONISH_BIND": bind, "SOONISH_DATA_DIR": data_dir and str(data_dir)}
    return {**os.environ, **{name: value for name, value in given.items() if value}}
