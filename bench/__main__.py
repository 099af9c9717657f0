"""`python -m bench [s1 s2 ...] [--quick]`: measure the speed goals beside peers and limits."""

import argparse
import gc
import logging
from time import perf_counter
from types import ModuleType

import uvloop

from bench import report, s1, s2, s3, s4, s5, s6, s7, s8, s10
from bench.scale import FULL, QUICK, Scale
from bench.server import server
from soonish.app import memory

MODULES = s1, s2, s3, s4, s5, s6, s7, s8, s10
GOALS: dict[str, ModuleType] = {module.__name__.rpartition(".")[2]: module for module in MODULES}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("goals", nargs="*", metavar="GOAL", help=f"some of {' '.join(GOALS)}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, within a minute: shows that all runs")
    given = parser.parse_args()
    if strange := [name for name in given.goals if name not in GOALS]:
        parser.error(f"{strange[0]!r} is no goal; there are {', '.join(GOALS)}")
    logging.disable(logging.WARNING)  # of the peers
    uvloop.run(measure(given.goals or list(GOALS), QUICK if given.quick else FULL))


async def measure(names: list[str], scale: Scale) -> None:
    began = perf_counter()
    print(report.LEGEND)
    print(f"\nMachine: {report.machine()}")
    async with server() as postgres:
        print(f"Server:  {await postgres.facts()}")
        for name in names:
            gc.collect()
            memory.settle()  # as the product does when it has started
            started = perf_counter()
            lines = await GOALS[name].measure(postgres, scale)
            report.show(GOALS[name].TITLE, lines, perf_counter() - started)
    print(f"\nAll of it took {perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()
