"""Scripts of SQL: `millstream sql -f job.sql`, `millstream run job.sql`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from millstream.table.session.session import SqlSession, read_script

__all__ = ["run_scripts"]


def run_scripts(paths: Sequence[str], init: str | None = None, *, echo: bool = False) -> None:
    """Execute scripts in one session, and wait for the jobs that they began.

    Args:
        paths: The scripts, in order.
        init: A script that is executed before, without being printed.
        echo: Whether statements are printed before they are executed.

    Raises:
        MillstreamError: If a statement or a job fails; statements before it were executed.
    """
    session = SqlSession()
    if init is not None:
        session.run_text(read_script(init), name=os.path.basename(init))
    for path in paths:
        session.run_text(read_script(path), echo=echo, name=os.path.basename(path))
    session.wait_for_jobs()
