"""The command `soonish`. Nothing is loaded before it is called."""


def main() -> None:
    """The entry of the console script and of `python -m soonish`."""
    from soonish.cli.commands import run

    run()
