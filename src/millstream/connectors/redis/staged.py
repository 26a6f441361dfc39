"""The exactly-once sink of Redis: commands wait in Redis until the checkpoint, then one script performs them.

::

    slot     write … ─► hash millstream:staged:NAME {1: commands, 2: commands, …}      invisible to readers
             ══════════════════════════ checkpoint ══════════════════════════
    driver   script: NAME is there        perform all, note in millstream:committed:JOB, remove it     at once
                     it is not; noted     done before: skip
                     it is not; not noted lost: LostOutputError

Each write to the hash has a number, so that a request that is repeated changes nothing. Only the first makes the hash:
a zombie whose transaction was aborted gets an error, and does not begin it anew. What is noted is the largest place in
the order of a subtask's transactions: by generation and attempt, then by number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import LostOutputError, SinkError
from millstream.connectors.redis.commands import Command, RedisCommand
from millstream.connectors.redis.connection import RedisClient, RedisConnection
from millstream.connectors.two_phase import SinkContext, TwoPhaseCommitSink
from millstream.spi.sink import WriterContext

__all__ = ["StagedCommands", "StagingRedisSink"]

_CHUNK_COMMANDS = 500
_CHUNK_BYTES = 1 << 20
_MOST_ARGUMENTS = 5_000
"""Lua hands on so many at least."""

_ARRAY = struct.Struct(">BI")

# KEYS: the hash, the set of staged names. ARGV: number of the chunk, commands, name.
_STAGE = """
if ARGV[1] ~= '1' and redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if ARGV[1] == '1' then redis.call('SADD', KEYS[2], ARGV[3]) end
return 1
"""

# KEYS: the hash, the notes, the set of staged names. ARGV: subtask, place in the order, chunks, name, type of keys.
# Commands cannot be undone, so keys are looked at first; if one fails all the same, a repetition goes on behind it.
_COMMIT = """
local noted = redis.call('HGET', KEYS[2], ARGV[1])
local chunks = tonumber(ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 0 then
  if noted and noted >= ARGV[2] then return {'before'} end
  return {'lost'}
end
local staged = {}
local types = {}
for chunk = 1, chunks do
  local packed = redis.call('HGET', KEYS[1], tostring(chunk))
  if not packed then return {'lost'} end
  for _, command in ipairs(cmsgpack.unpack(packed)) do
    staged[#staged + 1] = command
    local key = command[2]
    if ARGV[5] ~= '' and not types[key] then
      types[key] = redis.call('TYPE', key).ok
      if types[key] ~= 'none' and types[key] ~= ARGV[5] then return {'type', key, types[key]} end
    end
  end
end
local done = tonumber(redis.call('HGET', KEYS[1], 'done') or '0')
for number = done + 1, #staged do
  local reply = redis.pcall(unpack(staged[number]))
  if type(reply) == 'table' and reply.err then
    if number > done + 1 then redis.call('HSET', KEYS[1], 'done', number - 1) end
    return {'failed', reply.err}
  end
end
if not noted or noted < ARGV[2] then redis.call('HSET', KEYS[2], ARGV[1], ARGV[2]) end
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[3], ARGV[4])
return {'committed'}
"""


@dataclass(frozen=True, slots=True)
class StagedCommands:
    """A transaction, and what is committed of it.

    Attributes:
        name: Of `WriterContext.new_name`.
        subtask: Of the writer.
        place: Its place in the order of the subtask's transactions; larger texts are later ones.
        chunks: How many chunks were staged.
    """

    name: str
    subtask: int = 0
    place: str = ""
    chunks: int = 0

    @property
    def owner(self) -> str:
        """Names job and sink."""
        return self.name.rsplit("-", 3)[0]


def _pack(commands: Sequence[Command]) -> bytes:
    """Return commands as MessagePack; Redis reads the older form only, in which bytes are texts."""
    parts = [_ARRAY.pack(0xDD, len(commands))]
    for command in commands:
        parts.append(_ARRAY.pack(0xDD, len(command)))
        for argument in command:
            parts += (_ARRAY.pack(0xDB, len(argument)), argument)
    return b"".join(parts)


class StagingRedisSink(TwoPhaseCommitSink):
    """Stages commands in Redis, and has them performed with the checkpoint.

    Args:
        connection: Where Redis is.
        command: How a record becomes a command.
        prefix: Of the keys of staged commands and notes.
    """

    def __init__(self, connection: RedisConnection, command: RedisCommand, prefix: str) -> None:
        self._connection = connection
        self._command = command
        self._prefix = prefix
        self._client: RedisClient | None = None
        self._context: WriterContext | None = None
        self._number = 0
        self._commands: list[Command] = []
        self._bytes = 0
        self._chunks = 0

    def open(self, context: WriterContext) -> None:
        """Make the client of a slot."""
        self._context = context
        self._client = RedisClient(self._connection, SinkError)

    def begin_transaction(self) -> StagedCommands:
        """Name a transaction; it is in Redis with its first commands."""
        assert self._context is not None
        context = self._context
        self._number += 1
        self._commands, self._bytes, self._chunks = [], 0, 0
        place = f"{context.generation:08d}.{context.began_ms:015d}.{context.attempt:06d}.{self._number:012d}"
        return StagedCommands(context.new_name(), context.subtask_index, place)

    def staged_transactions(self) -> Iterable[StagedCommands]:
        """List what is staged in Redis under the prefix."""
        names = self._call("listing what is staged", lambda client: client.smembers(self._registry))
        return [StagedCommands(name.decode()) for name in names]

    def invoke(self, transaction: StagedCommands, value: Any, context: SinkContext) -> None:
        """Add a record's command.

        Raises:
            SinkError: If it has too many arguments, or commands cannot be staged.
        """
        command = self._command.of(value)
        if len(command) > _MOST_ARGUMENTS:
            raise SinkError(
                f"a record is a Redis command with {len(command)} arguments",
                detail=f"What is written exactly once has {_MOST_ARGUMENTS} at most.",
            )
        self._commands.append(command)
        self._bytes += sum(map(len, command))
        if len(self._commands) >= _CHUNK_COMMANDS or self._bytes >= _CHUNK_BYTES:
            self._stage(transaction)

    def pre_commit(self, transaction: StagedCommands) -> StagedCommands | None:
        """Stage the rest."""
        self._stage(transaction)
        if not self._chunks:
            return None
        return StagedCommands(transaction.name, transaction.subtask, transaction.place, self._chunks)

    def commit(self, committable: StagedCommands) -> None:
        """Have what is staged performed, unless that was done before.

        Raises:
            LostOutputError: If it is not there any more.
            SinkError: If Redis refuses it.
        """
        what = f"committing {committable.name}"
        keys = [self._stage_key(committable), f"{self._prefix}:committed:{committable.owner}", self._registry]
        arguments = [
            committable.subtask,
            committable.place,
            committable.chunks,
            committable.name,
            self._command.key_type or "",
        ]
        outcome, *seen = self._call(what, lambda client: client.eval(_COMMIT, 3, *keys, *arguments))
        if outcome == b"lost":
            raise LostOutputError(
                f"output that was staged in Redis under {keys[0]!r} is not there any more",
                detail=f"Server {self._connection.address}; {committable.chunks} parts were staged.",
                hint="It was restarted without its data, or somebody removed keys. Have it keep its data "
                "(appendonly yes), and go on from an older checkpoint or savepoint.",
            )
        assert self._client is not None
        if outcome == b"type":
            key, kind = seen[0].decode(errors="replace"), seen[1].decode()
            raise self._client.explain(
                what, f"WRONGTYPE key {key!r} holds a {kind}; a {self._command.key_type} is to be written"
            )
        if outcome == b"failed":
            raise self._client.explain(what, seen[0].decode(errors="replace"))

    def abort(self, committable: StagedCommands) -> None:
        """Remove what is staged, if it is."""

        def remove(client: Any) -> None:
            with client.pipeline(transaction=True) as pipeline:
                pipeline.delete(self._stage_key(committable))
                pipeline.srem(self._registry, committable.name)
                pipeline.execute()

        self._call(f"removing what is staged as {committable.name}", remove)

    def open_committer(self) -> None:
        """Make the client of the driver."""
        self._client = RedisClient(self._connection, SinkError)

    def close(self) -> None:
        """End the connection of a slot."""
        self._close()

    def close_committer(self) -> None:
        """End the connection of the driver."""
        self._close()

    @property
    def _registry(self) -> str:
        return f"{self._prefix}:staged"

    def _stage_key(self, transaction: StagedCommands) -> str:
        return f"{self._prefix}:staged:{transaction.name}"

    def _stage(self, transaction: StagedCommands) -> None:
        if not self._commands:
            return
        number, packed = self._chunks + 1, _pack(self._commands)
        stage_key = self._stage_key(transaction)
        there = self._call(
            f"staging {len(self._commands)} commands",
            lambda client: client.eval(
                _STAGE, 2, stage_key, self._registry, number, packed, transaction.name
            ),
        )
        if not there:
            raise LostOutputError(
                f"output that was staged in Redis under {stage_key!r} is not there any more",
                hint="Redis was restarted without its data, or another attempt of the job has taken over.",
            )
        self._commands, self._bytes, self._chunks = [], 0, number

    def _call(self, what: str, action: Any) -> Any:
        assert self._client is not None
        return self._client.call(what, action)

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
