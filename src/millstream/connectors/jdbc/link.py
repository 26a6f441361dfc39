"""A connection that comes back: transactions are repeated when the server was away, or chose them in a deadlock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from millstream.base.errors import MillstreamError, SinkError
from millstream.connectors.jdbc.database import Database, Session, Trouble
from millstream.connectors.patience import Patience

__all__ = ["Link"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Link:
    """One connection at a time to a database.

    Args:
        database: The database.
        patience_s: How long it is waited for while it is away.
        max_retries: How often a transaction is repeated that was chosen in a deadlock.
        prepare: What is done once in each new connection.
    """

    def __init__(
        self,
        database: Database,
        *,
        patience_s: float,
        max_retries: int,
        prepare: Callable[[Session], None] | None = None,
    ) -> None:
        self._database = database
        self._patience = Patience(total_s=patience_s)
        self._max_retries = max_retries
        self._prepare = prepare
        self._session: Session | None = None

    def run(self, action: Callable[[Session], Result], *, what: str) -> Result:
        """Run an action in a transaction of its own, repeated while it fails for reasons that pass; then commit.

        An answer to the commit that was lost repeats it too, so the action may have taken effect before.

        Args:
            action: What is done.
            what: Names it, for the log.

        Raises:
            SinkError: If the server stays away, or refuses the connection.
            Exception: What the action raised, if it would again.
        """
        conflicts = 0

        def is_passing(error: Exception) -> bool:
            nonlocal conflicts
            trouble = self._database.judge(error)
            if trouble is Trouble.CONFLICT:
                conflicts += 1
                return conflicts <= self._max_retries
            return trouble is Trouble.AWAY

        def attempt() -> Result:
            session = self._session or self._connect()
            try:
                result = action(session)
                session.commit()
            except BaseException as error:
                self._undo(session, error)
                raise
            return result

        try:
            return self._patience.call(
                attempt, is_passing=is_passing, what=f"{what} ({self._database})", log=log
            )
        except Exception as error:
            if self._database.judge(error) is not Trouble.AWAY:
                raise
            raise SinkError(
                f"{self._database} is away: {what} failed for {self._patience.total_s:g} s",
                detail=_first_lines(error),
                hint="Start the server, or correct the URL. A restart strategy has the job go on from its checkpoint.",
            ) from error

    def _connect(self) -> Session:
        try:
            session = self._database.connect()
        except Exception as error:
            if isinstance(error, MillstreamError) or self._database.judge(error) is not Trouble.FINAL:
                raise
            raise SinkError(
                f"{self._database} refuses the connection",
                detail=_first_lines(error),
                hint="Look at the user, the password and the name of the database in the connection options.",
            ) from None
        if self._prepare is not None:
            try:
                self._prepare(session)
                session.commit()
            except BaseException:
                session.close()
                raise
        self._session = session
        return session

    def _undo(self, session: Session, error: BaseException) -> None:
        """Roll back; a connection of which it is not known what it can still do is closed."""
        if isinstance(error, Exception) and self._database.judge(error) is not Trouble.AWAY:
            try:
                session.rollback()
            except Exception as second:  # noqa: BLE001 - any error of the driver: the first one is raised
                log.debug("a transaction could not be rolled back: %s", second)
            else:
                return
        self.close()

    def close(self) -> None:
        """End the connection."""
        if self._session is not None:
            session, self._session = self._session, None
            session.close()


def _first_lines(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
