"""Whose a job's storage is: that of the driver that took it over last.

Drivers cannot tell whether another one is dead or only silent, so none asks. Each driver that begins a job takes the
next **term** by a file that is created exclusively, and from then on the terms before it are over::

    <high-availability.storageDir>/<name>.owners/1      taken first
                                  /<name>.owners/2      taken over: the driver of term 1 is superseded
    <name>.recovery, <name>@2.recovery                  where each of them had come to: a file for each term

Whoever publishes anything writes first where it has come to, and looks then whether its term is still the newest.
Whoever takes over takes the term first, and reads then where the one before had come to. So one of the two always
sees the other: what a superseded driver still publishes is what its successor publishes as well, under the same names,
and nothing else. No clock takes part in it. Names of what a driver writes differ from term to term, so that what it
writes late, in the moment between looking and writing, replaces nothing of its successor's.

The newest file stays when a job has ended: terms are never given twice.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from millstream.base.clock import Clock
from millstream.base.errors import CheckpointStorageError, DriverSupersededError, MillstreamError
from millstream.files.stores import FileStore, open_store

__all__ = ["Owner", "Ownership", "of_term", "owned_terms"]

log = logging.getLogger(__name__)

_MOST_TRIES = 50
_LONGEST_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Owner:
    """A driver, as others are told of it.

    Attributes:
        term: Its term.
        job: Name of its job.
        since_ms: When it took the term, by its own clock, epoch milliseconds.
        host: Where it runs.
        pid: Its process there.
    """

    term: int
    job: str
    since_ms: int
    host: str
    pid: int

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.since_ms / 1000, UTC)
        return f"process {self.pid} on {self.host}, at {at:%Y-%m-%d %H:%M:%S} UTC"


def of_term(name: str, term: int) -> str:
    """Return the name of a file that each term has for itself, without its suffix.

    >>> of_term("orders", 1), of_term("orders", 2)
    ('orders', 'orders@2')
    """
    return name if term <= 1 else f"{name}@{term}"


def owned_terms(directory: str, name: str) -> list[int]:
    """Return the terms that are told of, the newest first.

    Args:
        directory: Directory or URI that outlives drivers.
        name: Names the job there, as a file name.

    Raises:
        CheckpointStorageError: If they cannot be read.
    """
    return _terms(open_store(directory), _directory(name))


class Ownership:
    """One driver's term; any thread of it may look.

    Attributes:
        term: Its number, from 1.
        former: The terms before it that are still told of, the newest first.
    """

    def __init__(self, store: FileStore, directory: str, owner: Owner, former: Sequence[int]) -> None:
        self._store = store
        self._directory = directory
        self._job = owner.job
        self.term = owner.term
        self.former = list(former)

    @classmethod
    def take(cls, directory: str, name: str, *, job: str, clock: Clock) -> Ownership:
        """Take a job's storage over, from whomever it belongs to; of several at the same time, one has it.

        Args:
            directory: Directory or URI that outlives drivers.
            name: Names the job there, as a file name.
            job: Its name, for people.
            clock: Time, for people.

        Raises:
            DriverSupersededError: If another one was faster.
            CheckpointStorageError: If the file cannot be written.
        """
        store, claims = open_store(directory), _directory(name)
        newest = max(_terms(store, claims), default=0)
        for term in range(newest + 1, newest + _MOST_TRIES):
            owner = Owner(term, job, clock.now_ms(), socket.gethostname(), os.getpid())
            created = store.create(f"{claims}/{term}", json.dumps(asdict(owner)).encode())
            known = _terms(store, claims)
            own = cls(store, claims, owner, [other for other in known if other < term])
            if created and known[:1] == [term]:
                return own
            if created:  # from a list that had grown old meanwhile
                store.delete(f"{claims}/{term}")
            if known[:1] > [newest]:
                raise own._superseded(known, newest + 1)
            # Several tried at the same time and none succeeded, or one was killed as it tried.
            clock.wait(random.uniform(0, _LONGEST_PAUSE_S))
        raise CheckpointStorageError(
            f'"{store.describe(claims)}" could not be taken over in {_MOST_TRIES} tries'
        )

    def check(self) -> None:
        """See whether the storage still belongs to this driver.

        Raises:
            DriverSupersededError: If another one has taken it over.
            CheckpointStorageError: If that cannot be seen.
        """
        known = _terms(self._store, self._directory)
        if known[:1] != [self.term]:
            raise self._superseded(known, self.term)

    def forget_former(self) -> None:
        """Remove the files of the terms before this one, which are over; what cannot be removed does no harm."""
        try:
            for term in self.former:
                self._store.delete(f"{self._directory}/{term}")
        except CheckpointStorageError as error:
            log.info("files of former drivers stay: %s", error.message)
        else:
            self.former = []

    def _superseded(self, known: Sequence[int], since: int) -> DriverSupersededError:
        """Return the error that tells of the newest term that is known, if it is not before `since`."""
        newest = next((term for term in known if term >= since), None)
        where = self._store.describe(f"{self._directory}/{newest or self.term}")
        if newest is None:
            detail = f'Its file "{where}" was removed.'
        else:
            detail = f'The job was taken over by {self._who(newest)}; see "{where}".'
        return DriverSupersededError(
            f'this driver of job "{self._job}" is superseded: its storage belongs to another one',
            detail=detail,
            hint="The other one goes on with the job. If two different jobs share the name, give each its own, or its "
            "own high-availability.cluster-id.",
        )

    def _who(self, term: int) -> str:
        try:
            content = json.loads(self._store.read_if_there(f"{self._directory}/{term}") or b"")
            return str(Owner(**content))
        except (MillstreamError, ValueError, TypeError):  # it is about to be written, or gone
            return f"a driver that does not tell more, of term {term}"


def _directory(name: str) -> str:
    return f"{name}.owners"


def _terms(store: FileStore, directory: str) -> list[int]:
    return sorted((int(name) for name in store.names(directory) if re.fullmatch(r"\d+", name)), reverse=True)
