"""The console: what is delivered there is in the person's inbox once it is written down."""

from soonish.delivery.channel import SENT, Letter, Outcome, Target


class Console:
    """Nothing has to be carried anywhere: the record of the delivery is the delivery."""

    async def send(self, _target: Target, _what: Letter) -> Outcome:
        return SENT

    async def close(self) -> None:
        """Nothing is kept."""
