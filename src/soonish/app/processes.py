"""What runs: `up` is everything in one process, `serve` and `work` are its two halves on engines that run elsewhere.

A process is a stack of parts: each opens after what it stands on, and closes before it. What a command prints, and who
tells a process to end, is not known here.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from soonish.access.actions.closed import ClosedWorkspaces
from soonish.access.actions.start import first_link
from soonish.app import memory
from soonish.app.engines import engines
from soonish.app.installation import first_start, own_vault
from soonish.app.listening import door, served
from soonish.app.parts import Process, application, due_loop, opened, probe
from soonish.db.listen import Listener
from soonish.db.migrate import REMEDY, check
from soonish.db.pool import WrongDatabase
from soonish.due import Lane, Loop
from soonish.embedded.folder import Folder
from soonish.embedded.lock import Lock
from soonish.errors import FieldError, SoonishError
from soonish.events.actions.replanning import ask_to_convert
from soonish.ops.actions.secrets import workspaces
from soonish.ops.actions.system import begin
from soonish.settings import Settings, WrongSettings
from soonish.vault import Vault

ENGINE_PATIENCE: Final = 2.0  # seconds that a start waits for Temporal; nothing that is asked by HTTP needs it


@dataclass(frozen=True, slots=True)
class Fact:
    """What a process says when it is ready."""

    label: str
    text: str


@asynccontextmanager
async def up(settings: Settings) -> AsyncIterator[list[Fact]]:
    """Everything in one process, with the engines that have no address as its children."""
    async with AsyncExitStack() as stack:
        stack.enter_context(Lock(settings.data_dir, settings.bind.url))
        entrance = stack.enter_context(door(settings.bind))
        folder = Folder.prepare(settings.data_dir)
        running = await engines(stack, settings, folder)
        vault, made = own_vault(running.settings, folder)
        process = await stack.enter_async_context(opened(running.settings, vault, "up"))
        first_key = await first_start(process.db, vault, folder, keys_made=made)
        working = await _planned(stack, process, frozenset(Lane))
        api = application(process, working.listener)
        await _begun(stack, process, working)
        await stack.enter_async_context(served(api, entrance))
        facts = [Fact("database", running.database), Fact("temporal", running.temporal)]
        facts += [Fact("api", settings.public_url), _overdue(working)]
        facts.append(Fact("sign in", await first_link(process.db, settings.public_url)))
        memory.settle()
        yield [*facts, Fact("admin key", first_key)] if first_key else facts


@asynccontextmanager
async def serve(settings: Settings) -> AsyncIterator[list[Fact]]:
    """The API and the console. Temporal is none of its business: no request waits for it.

    On a new database the first of many tells the first key to the API.
    """
    async with AsyncExitStack() as stack:
        vault = _given(settings, "database_url")
        await _check_schema(settings)
        entrance = stack.enter_context(door(settings.bind))
        process = await stack.enter_async_context(opened(settings, vault, "serve"))
        first_key = await first_start(process.db, vault)
        listener = Listener(process.db.connect)
        api = application(process, listener)
        await stack.enter_async_context(listener)
        process.health.begun()
        await stack.enter_async_context(served(api, entrance))
        facts = [Fact("api", settings.public_url)]
        memory.settle()
        yield [*facts, Fact("admin key", first_key)] if first_key else facts


@asynccontextmanager
async def work(settings: Settings, lanes: frozenset[Lane]) -> AsyncIterator[list[Fact]]:
    """The loops of these lanes, and what they ask of Temporal."""
    async with AsyncExitStack() as stack:
        vault = _given(settings, "database_url", "temporal_address")
        await _check_schema(settings)
        entrance = stack.enter_context(door(settings.work_bind)) if settings.work_bind else None
        process = await stack.enter_async_context(opened(settings, vault, "work"))
        working = await _planned(stack, process, lanes)
        await _begun(stack, process, working)
        if entrance:
            await stack.enter_async_context(served(probe(process), entrance))
        memory.settle()
        yield [_overdue(working)]


def _given(settings: Settings, *engines: str) -> Vault:
    """The vault, where all is set that this process does not start or make by itself; names all that is missing."""
    unset = [f"SOONISH_{name.upper()}" for name in engines if getattr(settings, name) is None]
    missing = [FieldError(name, "missing_setting", "is needed: only `soonish up` starts one") for name in unset]
    try:
        vault = Vault.from_setting(settings.secrets_keys)
    except WrongSettings as error:
        raise WrongSettings(*missing, *error.errors) from error
    if missing:
        raise WrongSettings(*missing)
    return vault


async def _check_schema(settings: Settings) -> None:
    """Many processes share a schema, so none of them changes it by starting."""
    state = await check(settings.database_listen_url or settings.database_url or "")
    if state != "current":
        raise WrongDatabase(REMEDY[state], code="schema")


async def _planned(stack: AsyncExitStack, process: Process, lanes: frozenset[Lane]) -> Loop:
    """The loop, and what must be known before it starts."""
    closed = await stack.enter_async_context(ClosedWorkspaces(process.db))
    return due_loop(process, lanes, closed)


async def _begun(stack: AsyncExitStack, process: Process, working: Loop) -> None:
    """Start the loop, and say so at once: others would wonder for ten seconds who works these lanes."""
    await stack.enter_async_context(working)
    process.health.begun()
    await begin(process.db)
    await ask_to_convert(process.db, process.events.terms)
    with suppress(SoonishError):
        await process.health.beat()
        process.health.pulse.suspect(await workspaces(process.db))
    with suppress(TimeoutError):
        assert process.engine
        await process.engine.wait_up(ENGINE_PATIENCE)


def _overdue(working: Loop) -> Fact:
    """The report of the start in words."""
    count, oldest = working.recovery.get("count", "not known"), working.recovery.get("oldest")
    return Fact("overdue", f"{count}, the oldest since {oldest:%Y-%m-%d %H:%M:%S} UTC" if oldest else str(count))
