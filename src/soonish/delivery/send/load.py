"""What one try must know: the delivery, what it carries, and its target with its secrets open.

Those of one claim are read by one statement. What does not change (a message, a version of a target) is kept for a
while. Knows rows, nothing of channels.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypeVar
from uuid import UUID

from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.delivery.channel import Target
from soonish.delivery.model.endpoints import opened
from soonish.errors import Unavailable
from soonish.people.model.quiet import quiet_until
from soonish.vault import Vault

SQL: Final = load(__file__)
KEPT: Final = 10_000  # messages, and targets, that a process remembers
HOUSE_LIFE: Final = 5.0  # seconds for which the settings of a workspace are remembered

Row: TypeAlias = Mapping[str, Any]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class House:
    """What all deliveries of a workspace share."""

    id: int
    slug: str
    unknown_people: Any
    uid: UUID


@dataclass(frozen=True, slots=True)
class Case:
    """One delivery, as it stood when it was loaded; `at` was then by this process's clock."""

    row: Row
    house: House
    letter: Row | None
    target: Target | None
    at: float
    shut: Unavailable | None = None  # no key at hand opens its target

    @property
    def torn(self) -> bool:
        """Its target was changed between the two looks at it: look again, and blame nobody."""
        return bool(self.row["target_here"]) and self.target is None and self.shut is None

    @property
    def age(self) -> float:
        """Seconds since it was loaded."""
        return monotonic() - self.at

    def now(self) -> datetime:
        """This moment by the database's clock."""
        loaded: datetime = self.row["now"]
        return loaded + timedelta(seconds=self.age)

    @property
    def quiet_until(self) -> datetime | None:
        if self.row["quiet_start"] is None:
            return None
        return quiet_until(self.row["quiet_start"], self.row["quiet_end"], self.row["timezone"], self.row["now"])


class Recent(Generic[K, V]):
    """The values that were used last."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def keep(self, key: K, value: V) -> None:
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def missing(self, keys: Iterable[K]) -> set[K]:
        return {key for key in keys if key not in self._values}


class Loader:
    """One a process."""

    def __init__(self, db: Database, vault: Vault) -> None:
        self._db = db
        self._vault = vault
        self._houses: dict[int, tuple[float, House]] = {}
        self._letters: Recent[int, Row] = Recent()
        self._targets: Recent[tuple[str, int, int], _Opened] = Recent()
        self._shut: dict[tuple[str, int, int], Unavailable] = {}  # of the last look

    async def cases(self, workspace_id: int, ids: Sequence[int]) -> list[Case | None]:
        """The cases of deliveries of one workspace; None where there is none any more."""
        async with self._db.transaction(workspace_id, readonly=True) as tx:
            rows = await SQL.cases.rows(tx, ids=ids)
            house = await self._house(tx, workspace_id)
            await self._read_letters(tx, rows)
            await self._open_targets(tx, rows, workspace_id)
        at = monotonic()
        cases = {row["id"]: self._case(row, house, at) for row in rows}
        return [cases.get(one) for one in ids]

    def _case(self, row: Row, house: House, at: float) -> Case:
        letter = None if row["message_id"] is None else self._letters.get(row["message_id"])
        try:
            return Case(row, house, letter, self._target(row, house), at)
        except Unavailable as error:
            return Case(row, house, letter, None, at, error)

    def _target(self, row: Row, house: House) -> Target | None:
        if row["mailbox"] is not None:
            place = (house.id, "delivery", "mailbox", row["id"])
            return Target(0, 0, house.id, self._vault.unseal(row["mailbox"], place).decode(), {})
        if not row["target_here"]:
            return None
        if error := self._shut.get(_name(row)):
            raise error
        kept = self._targets.get(_name(row))
        return kept.target(row["now"]) if kept else None

    async def _house(self, tx: Tx, workspace_id: int) -> House:
        until, house = self._houses.get(workspace_id, (0.0, None))
        if house is None or monotonic() > until:
            row = await SQL.house.row(tx)
            house = House(workspace_id, row["slug"], row["unknown_people"], row["uid"])
            self._houses[workspace_id] = (monotonic() + HOUSE_LIFE, house)
        return house

    async def _read_letters(self, tx: Tx, rows: Sequence[Row]) -> None:
        wanted = self._letters.missing({row["message_id"] for row in rows if row["message_id"] is not None})
        if wanted:
            for letter in await SQL.letters.rows(tx, ids=list(wanted)):
                self._letters.keep(letter["id"], letter)

    async def _open_targets(self, tx: Tx, rows: Sequence[Row], workspace_id: int) -> None:
        """Those whose version is not known yet. What no key opens stays shut, and whoever needs it waits, alone."""
        names = {_name(row) for row in rows if row["target_here"] and row["state"] == "pending"}
        wanted = self._targets.missing(names)
        if ids := [target_id for noun, target_id, _ in wanted if noun == "address"]:
            for row in await SQL.addresses.rows(tx, ids=ids):
                self._keep(("address", row["id"], row["version"]), partial(self._address, row, workspace_id))
        if ids := [target_id for noun, target_id, _ in wanted if noun == "endpoint"]:
            signing = await SQL.signing.rows(tx, ids=ids)
            for row in await SQL.endpoints.rows(tx, ids=ids):
                mine = [one for one in signing if one["endpoint_id"] == row["id"]]
                name = ("endpoint", row["id"], row["version"])
                self._keep(name, partial(self._endpoint, row, mine, workspace_id))

    def _keep(self, name: tuple[str, int, int], open_it: "Callable[[], _Opened]") -> None:
        self._shut.pop(name, None)
        try:
            self._targets.keep(name, open_it())
        except Unavailable as error:
            self._shut[name] = error

    def _address(self, row: Row, workspace_id: int) -> "_Opened":
        place = (workspace_id, "address", "target", row["id"])
        target = "" if row["target"] is None else self._vault.unseal(row["target"], place).decode()
        return _Opened(Target(row["id"], row["version"], workspace_id, target, {}), ())

    def _endpoint(self, row: Row, signing: Sequence[Row], workspace_id: int) -> "_Opened":
        place = (workspace_id, "endpoint", "secret_config", row["id"])
        sealed = row["secret_config"]
        config = opened(json.loads(row["config"]), None if sealed is None else self._vault.unseal(sealed, place))
        secrets = [
            (self._vault.unseal(one["secret"], (workspace_id, "endpoint_secret", "secret", one["id"])), one["ends_at"])
            for one in signing
        ]
        address = config.get("url") or config.get("queue_url") or ""
        return _Opened(Target(row["id"], row["version"], workspace_id, address, config), tuple(secrets))


@dataclass(frozen=True, slots=True)
class _Opened:
    """A version of a target, and its signing secrets with their ends."""

    plain: Target
    secrets: tuple[tuple[bytes, datetime | None], ...]

    def target(self, now: datetime) -> Target:
        if not self.secrets:
            return self.plain
        live = tuple(secret for secret, ends_at in self.secrets if ends_at is None or ends_at > now)
        one = self.plain
        return Target(one.id, one.version, one.workspace_id, one.address, one.config, live)


def _name(row: Row) -> tuple[str, int, int]:
    if row["endpoint_id"] is not None:
        return "endpoint", row["endpoint_id"], row["target_version"]
    return "address", row["address_id"], row["target_version"]
