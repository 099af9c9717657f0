"""The health of this process: whether it is ready, may begin anything new, and lives on in the eyes of the others.

The program feeds it with what the process has: its loop, listener, Temporal client. It looks at the disk, writes the
heartbeat and rings for live pages by itself, and no error ends that. Knows no workspace and no slice.
"""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, Self

from soonish import telemetry
from soonish.clock import utc_now
from soonish.db.listen import Listener
from soonish.db.migrate import HEAD, VERSIONS
from soonish.db.pool import Database
from soonish.db.sql import load
from soonish.due import queue
from soonish.due.loop.loop import LaneState, Loop
from soonish.errors import SoonishError, Unavailable
from soonish.ops.actions.process import Process
from soonish.ops.actions.pulse import Pulse
from soonish.ops.actions.secrets import count_by_key
from soonish.ops.model.health import (
    Check,
    Readiness,
    check_bell,
    check_database,
    check_disk,
    check_keys,
    check_loops,
    check_schema,
    check_temporal,
    readiness,
)
from soonish.ops.model.upkeep import SYSTEM, Secret
from soonish.vault import Vault

SQL: Final = load(str(Path(__file__).parent))
ANSWER_TIMEOUT: Final = 3.0
FRESH: Final = 1.0  # seconds for which a readiness is not looked at anew

_log = logging.getLogger(__name__)


class Engine(Protocol):
    """What is asked of the Temporal client."""

    @property
    def up(self) -> bool: ...


def free_bytes(folder: Path) -> int | None:
    """None where there is no such folder: a process on engines that run elsewhere needs none."""
    try:
        return shutil.disk_usage(folder).free
    except FileNotFoundError:
        return None


class Health:
    """One a process, from `async with` to its end. `loop`, `listener`, `engine` stay None where it has none."""

    def __init__(
        self,
        db: Database,
        *,
        data_dir: Path | None,
        role: str,
        version: str,
        vault: Vault | None = None,
        secrets: Sequence[Secret] = (),
        free: Callable[[Path], int | None] = free_bytes,
    ) -> None:
        self.version = version
        self.loop: Loop | None = None
        self.listener: Listener | None = None
        self.engine: Engine | None = None
        self.pulse = Pulse(db)
        self._db = db
        self._data_dir = data_dir
        self._vault = vault
        self._secrets = secrets
        self._free_of = free
        self._process = Process(db, role, version)
        self._free: int | None = None
        self._refused = False
        self._missing: set[str] = set()
        self.last: Readiness = readiness({})  # as it was some seconds ago, for those who must not wait
        self._checked_at = -FRESH
        self._checking = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.look_at_disk()
        with suppress(SoonishError):
            await self._process.enter()
        steps = (
            (1.0, self.pulse.beat),
            (5.0, self.look_at_disk),
            (5.0, self.check),
            (10.0, self.beat),
            (600.0, self.look_at_keys),
        )
        self._tasks = [asyncio.create_task(_every(seconds, step)) for seconds, step in steps]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(SoonishError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._process.leave()

    # -- the gate ----------------------------------------------------------------------------------------------------

    def may_claim(self) -> bool:
        """Whether there is room for what would be written; asked by the loops before each claim."""
        return self._disk().status == "ok"

    def refuse_writes(self) -> None:
        """Raise `storage_full` while there is no room; asked before each request that changes anything."""
        disk = self._disk()
        if disk.status != "ok":
            raise Unavailable(f"Nothing can be saved now: {disk.detail}", retry_after=10, code="storage_full")

    def storage_full(self) -> None:
        """The database said that it has no space. It is asked again every few seconds, until it has."""
        if not self._refused:
            _log.error("health.storage_full")
        self._refused, self._checked_at = True, -FRESH

    async def look_at_disk(self) -> None:
        if self._data_dir:
            self._free = await asyncio.to_thread(self._free_of, self._data_dir)
        if self._refused and await self._has_space():
            _log.warning("health.storage_free")
            self._refused = False

    async def _has_space(self) -> bool:
        try:
            async with self._db.transaction(SYSTEM) as tx:
                await SQL.take_space.run(tx)
        except Unavailable:
            return False
        return True

    def _disk(self) -> Check:
        return check_disk(self._free, refused=self._refused)

    # -- readiness ---------------------------------------------------------------------------------------------------

    async def check(self) -> Readiness:
        """How ready this process is; looked at once a second at most, however many ask."""
        clock = asyncio.get_running_loop().time
        async with self._checking:
            if clock() - self._checked_at >= FRESH:
                self.last = readiness(await self._checks())
                self._checked_at = clock()
            return self.last

    def begun(self) -> None:
        """All parts run now: what was found while they started is not worth telling."""
        self._checked_at = -FRESH

    async def _checks(self) -> dict[str, Check]:
        schema = await self._schema()
        return {
            "database": check_database(schema is not None),
            "schema": check_schema(schema),
            "loops": check_loops(self.silences()),
            "bell": check_bell(self._hears()),
            "temporal": check_temporal(self.engine.up if self.engine else None),
            "keys": check_keys(self._missing),
            "disk": self._disk(),
        }

    async def _schema(self) -> str | None:
        """How the schema of the database stands to that of this program; None where it does not answer."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT), self._db.transaction(SYSTEM, readonly=True) as tx:
                version = await SQL.schema_version.value(tx)
        except (SoonishError, TimeoutError):
            return None
        if version == HEAD:
            return "current"
        return "behind" if version in VERSIONS else "ahead"

    def silences(self) -> dict[str, float]:
        """By loop of this process: the seconds since it looked last."""
        return {state.name: state.last_turn_s for state in self.states()}

    def states(self) -> Sequence[LaneState]:
        return self.loop.state() if self.loop else ()

    def recovery(self) -> Mapping[str, Any] | None:
        """What was overdue when the loops of this process began."""
        return self.loop.recovery if self.loop else None

    def _hears(self) -> bool | None:
        listeners = [part for part in (self.loop.listener if self.loop else None, self.listener) if part]
        return all(listener.up for listener in listeners) if listeners else None

    # -- what it does by itself --------------------------------------------------------------------------------------

    async def beat(self) -> None:
        """Tell the others that this process lives."""
        try:
            await self._process.beat(self.states())
        except Unavailable as error:
            if error.code == "storage_full":
                self.storage_full()
            raise

    async def look_at_keys(self) -> None:
        """Find values whose key is gone, so that it is known before somebody needs them."""
        if self._vault:
            used = await count_by_key(self._db, self._secrets)
            self._missing = set(used) - set(self._vault.key_ids)

    async def measure(self) -> None:
        """Bring the metrics that are not counted up to date; what cannot be had now stays as it was."""
        telemetry.temporal_up.set(bool(self.engine and self.engine.up))
        now = utc_now().timestamp()
        for lane, seconds in self.silences().items():
            telemetry.due_last_claim_timestamp_seconds.labels(lane).set(now - seconds)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT), self._db.loops.acquire() as con:
                lanes, estimate = await queue.lanes(con), await SQL.estimate.row(con)
        except Exception:
            telemetry.database_up.set(0)
            return
        telemetry.database_up.set(1)
        telemetry.due_pending.set(estimate["pending"])
        telemetry.due_oldest_lease_seconds.set(estimate["oldest_lease_s"])
        telemetry.due_overdue.set(sum(row["overdue"] for row in lanes))
        telemetry.due_oldest_overdue_seconds.set(max(row["oldest_overdue_s"] for row in lanes))


async def _every(seconds: float, step: Callable[[], Awaitable[object]]) -> None:
    """Do it now and then for ever; no error ends it."""
    while True:
        try:
            await step()
        except Exception as error:
            _log.warning("health.step_failed step=%s error=%s", step.__name__, type(error).__name__)
        await asyncio.sleep(seconds)
