"""Ranges of tokens: how a ring is cut into splits, and how large a table is.

A partition's token is a hash of its key, so even parts of the ring hold about as much as each other::

    ring    -2**63 ................ 0 ................ 2**63 - 1        (Murmur3Partitioner)
    split 0: > -2**63 and <= -2**62    split 1: > -2**62 and <= 0    ...    the last: <= 2**63 - 1
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millstream.base.errors import NotSupportedError
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.key_ranges import KeyRange

__all__ = ["Ring", "bounds", "estimated_bytes", "number_of_splits", "read_ring"]

MOST_SPLITS = 10_000
"""A table is not cut into more: each has to be planned, and kept in checkpoints."""


@dataclass(frozen=True, slots=True)
class Ring:
    """The tokens of a partitioner.

    Attributes:
        before: The greatest number that is less than all of them.
        last: The last one.
    """

    before: int
    last: int

    @property
    def size(self) -> int:
        """How many there are."""
        return self.last - self.before

    def cut(self, splits: int) -> tuple[KeyRange, ...]:
        """Cut it into so many ranges, which differ by no more than one token.

        >>> [(keys.after, keys.up_to) for keys in Ring(-1, 9).cut(3)]
        [(('-1',), ('2',)), (('2',), ('5',)), (('5',), ('9',))]
        """
        ends = [self.before + self.size * part // splits for part in range(splits + 1)]
        return tuple(
            KeyRange(number, (str(ends[number]),), (str(ends[number + 1]),)) for number in range(splits)
        )

    def share(self, ranges: Iterable[tuple[int, int]]) -> float:
        """Return which part of it some ranges are; one whose end is not behind its start goes over the ring's end."""
        covered = sum((end - start) % self.size or self.size for start, end in ranges)
        return min(1.0, covered / self.size)


_RINGS = {
    "Murmur3Partitioner": Ring(-(2**63), 2**63 - 1),
    "RandomPartitioner": Ring(-1, 2**127),
}


def read_ring(client: CassandraClient) -> Ring:
    """Return the ring of a cluster.

    Raises:
        NotSupportedError: If tokens are no numbers.
        SourceError: If the cluster is away or refuses us.
    """
    (row,) = client.execute("SELECT partitioner FROM system.local", what="asking for the partitioner")
    name = row.partitioner.rpartition(".")[2]
    ring = _RINGS.get(name)
    if ring is None:
        raise NotSupportedError(
            f"the cluster has the partitioner {name}, whose ring is not cut",
            detail=f"Clusters with {' and '.join(_RINGS)} are read.",
        )
    return ring


def bounds(keys: KeyRange) -> tuple[int, int]:
    """Return the token before a range, and its last one.

    >>> bounds(KeyRange(0, ("-5",), ("7",)))
    (-5, 7)
    """
    assert keys.after is not None and keys.up_to is not None
    return int(keys.after[0]), int(keys.up_to[0])


def estimated_bytes(client: CassandraClient, ring: Ring, keyspace: str, table: str) -> int:
    """Return about how large a table is, as a node has estimated it; 0 for one that is new.

    A node knows the ranges that it comes first for; the table is taken for as full elsewhere.

    Raises:
        SourceError: If the cluster is away or refuses us.
    """
    rows = client.execute(
        "SELECT range_start, range_end, partitions_count, mean_partition_size FROM system.size_estimates "
        "WHERE keyspace_name = %s AND table_name = %s",
        (keyspace, table),
        what=f"asking how large table {keyspace}.{table} is",
    )
    if not rows:
        return 0
    size = sum(row.partitions_count * row.mean_partition_size for row in rows)
    share = ring.share((int(row.range_start), int(row.range_end)) for row in rows)
    return int(size / share)


def number_of_splits(size: int, most_bytes: int, parallelism: int) -> int:
    """Return how many splits a table has: none larger than allowed, and one for each subtask.

    >>> number_of_splits(100, 30, 2), number_of_splits(0, 30, 2), number_of_splits(10**15, 1, 2)
    (4, 2, 10000)
    """
    return max(parallelism, min(-(-size // most_bytes), MOST_SPLITS))
