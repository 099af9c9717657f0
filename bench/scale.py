"""How much is measured: the full run in some ten minutes, a quick one within a minute, a tiny one for a test."""

from typing import Final, NamedTuple


class Scale(NamedTuple):
    """Numbers of items and of repetitions."""

    pending: int  # items that wait in each queue, due or in the future
    few: int  # of the run that shows what a big backlog costs
    works: int  # items worked in a repetition
    peer_works: int  # the same for a peer that is slower by some times
    slow_works: int  # and for those that are slower by a hundred times
    puts: int  # items put in a call
    moments: int  # items spread over the span, for lateness
    span: float  # seconds
    knocks: int  # items put one by one into an idle queue
    storm: int  # webhooks due at one instant
    subscribers: int  # of one event
    schedules: int  # of an event whose reminders are schedules of Temporal
    posts: int  # events made over HTTP
    starts: int  # of the program
    repetitions: int
    peers: bool  # whether the slowest peers are measured too


FULL: Final = Scale(
    1_000_000, 10_000, 100_000, 40_000, 1_000, 50_000, 500, 5.0, 400, 100_000, 100_000, 500, 5_000, 3, 5, True
)  # fmt: skip
QUICK: Final = Scale(
    100_000, 10_000, 20_000, 10_000, 100, 10_000, 200, 2.0, 100, 10_000, 10_000, 50, 1_000, 1, 3, False
)  # fmt: skip
TINY: Final = Scale(4_000, 1_000, 2_000, 1_000, 50, 1_000, 20, 0.5, 5, 300, 300, 5, 100, 1, 1, False)
