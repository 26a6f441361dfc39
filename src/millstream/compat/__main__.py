"""`python -m millstream.compat [options] job.py [args]`: the same as `millstream run --pyflink`."""

from __future__ import annotations

import sys

from millstream.cli.run import command

__all__ = ["main"]


def main() -> None:
    """Run a program of PyFlink."""
    command.main(["--pyflink", *sys.argv[1:]], prog_name="python -m millstream.compat")


if __name__ == "__main__":
    main()
