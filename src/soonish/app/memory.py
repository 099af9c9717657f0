"""How a process tidies its memory: seldom, and never through what it loaded at the start.

Python's collector looks through all that lives, again and again, while much is made and dropped. Here what lives is
mostly modules, which never go: in a storm of deliveries that look took a fifth of the time, and held up everything else
for a fifth of a second at once.
"""

import gc
from typing import Final

THRESHOLDS: Final = (20_000, 20, 50)  # objects made, and rounds, between two looks at the young, the middle, the old


def settle() -> None:
    """Leave what is there alone from now on; said when something large has been loaded."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
