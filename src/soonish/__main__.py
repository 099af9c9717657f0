"""`python -m soonish` is the command `soonish`."""

from soonish.cli import main

if __name__ == "__main__":
    main()
