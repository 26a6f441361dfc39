"""What it costs to prove, message by message, who sent it: bundles between two processes, by kind of connection.

    python benchmarks/connections.py

Prints a line for each size and kind: Unix sockets, whose ends the kernel names, and TCP without and with codes.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from pathlib import Path

from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.handshake import SessionKeys

KEYS = SessionKeys(bytes(32), bytes(range(32)))
ROUNDS = 5
MIB = 1 << 20


def serve(listening: socket.socket, keys: SessionKeys | None) -> None:
    stream, _ = listening.accept()
    with Channel.of_listener(stream, keys) as channel:
        while channel.recv_bytes():
            channel.send_bytes(b"ok")


def measure(listening: socket.socket, keys: SessionKeys | None, size: int) -> float:
    """Return the seconds that a message of `size` bytes and its answer take, the best of some rounds."""
    child = os.fork()
    if not child:
        serve(listening, keys)
        os._exit(0)
    message, count, best = os.urandom(size), max(3, 64 * MIB // max(size, 64 * 1024)), 1e9
    stream = socket.socket(listening.family)
    stream.connect(listening.getsockname())
    with Channel.of_asker(stream, keys) as channel:
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            for _ in range(count):
                channel.send_bytes(message)
                channel.recv_bytes()
            best = min(best, (time.perf_counter() - begun) / count)
        channel.send_bytes(b"")
    os.waitpid(child, 0)
    return best


def main() -> None:
    for size in (100, 100_000, MIB, 16 * MIB):
        for name, keys in (("unix", None), ("tcp, no codes", None), ("tcp, codes", KEYS)):
            with tempfile.TemporaryDirectory() as directory:
                if name == "unix":
                    listening = socket.socket(socket.AF_UNIX)
                    listening.bind(str(Path(directory) / "socket"))
                    listening.listen()
                else:
                    listening = socket.create_server(("127.0.0.1", 0))
                with listening:
                    seconds = measure(listening, keys, size)
            print(f"{size:>9} bytes  {name:<14} {seconds * 1e6:>8.0f} us  {size / MIB / seconds:>6.0f} MiB/s")


if __name__ == "__main__":
    main()
