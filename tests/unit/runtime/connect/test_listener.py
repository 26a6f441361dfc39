"""Nobody is kept out by those who connect and say nothing, and nobody else gets in."""

from __future__ import annotations

import os
import socket
import stat
import struct
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from millstream.base.clock import SystemClock
from millstream.files.private_files import NotPrivateError, user_directory
from millstream.runtime.connect import sockets
from millstream.runtime.connect.asker import connect
from millstream.runtime.connect.handshake import HandshakeError
from millstream.runtime.connect.listener import Listener
from millstream.runtime.connect.sockets import listen_privately, peer_user, remove_private


def echo(channel):
    channel.send_bytes(channel.recv_bytes())


@pytest.fixture
def listen():
    """Start listeners."""
    with ExitStack() as stack:

        def listen(stream, **settings):
            settings = {"secret": b"s", "name": "slot", "converse": echo, "clock": SystemClock(), **settings}
            listener = Listener(stream, **settings)
            stack.callback(listener.close)
            listener.start()
            return stream.getsockname()

        yield listen


@pytest.fixture(params=["unix", "tcp"])
def target(request, listen, public):
    """Where somebody listens."""
    if request.param == "unix":
        return listen(listen_privately("here")[0], most_waiting=8)
    return listen(socket.create_server(("127.0.0.1", 0)), most_waiting=8)


def talk(target, message=b"hello", *, secret=b"s", name="slot", timeout_s=5.0):
    with connect(target, secret, name, timeout_s=timeout_s, silence_s=timeout_s) as channel:
        channel.send_bytes(message)
        return channel.recv_bytes()


def silent(stack, target):
    stream = stack.enter_context(socket.socket(socket.AF_UNIX if isinstance(target, str) else socket.AF_INET))
    stream.settimeout(10)
    stream.connect(target)
    return stream


@pytest.mark.parametrize("size", [0, 5, 20_000, 5_000_000])
def test_who_knows_the_secret_and_the_name_is_let_in(target, size):
    message = os.urandom(size)
    assert talk(target, message) == message


@pytest.mark.parametrize("wrong", [{"secret": b"a guess"}, {"name": "another slot"}])
def test_who_does_not_is_turned_away_and_others_are_let_in_still(target, wrong):
    with pytest.raises(HandshakeError):
        talk(target, **wrong)
    assert talk(target) == b"hello"


def test_many_who_say_nothing_keep_nobody_out(target):
    with ExitStack() as stack:
        for _ in range(50):
            silent(stack, target)
        begun = time.monotonic()
        assert talk(target) == b"hello"
        assert time.monotonic() - begun < 3, "less than the deadline of those who say nothing"


def test_no_more_than_so_many_wait_to_be_proved_and_the_oldest_goes(target):
    with ExitStack() as stack:
        streams = [silent(stack, target) for _ in range(12)]
        assert [each.recv(1) for each in streams[:4]] == [b""] * 4
        streams[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            streams[-1].recv(1)


def test_many_connections_of_one_host_do_not_crowd_out_another(listen):
    target = listen(socket.create_server(("127.0.0.1", 0)), most_waiting=4)
    with ExitStack() as stack:
        first = stack.enter_context(socket.socket())
        first.bind(("127.0.0.2", 0))
        first.connect(target)
        first.settimeout(0.3)
        for _ in range(20):
            silent(stack, target)
        with pytest.raises(TimeoutError):  # it is the oldest, and its host has no more than one
            first.recv(1)


def test_who_says_nothing_goes_at_the_deadline(listen, public):
    target = listen(listen_privately("here")[0], deadline_s=0.2)
    with ExitStack() as stack:
        assert silent(stack, target).recv(1) == b""


def test_long_conversation_keeps_nobody_out(listen, public):
    entered, go_on = threading.Event(), threading.Event()

    def converse(channel):
        entered.set()
        if channel.recv_bytes() == b"long":
            go_on.wait(10)
        channel.send_bytes(b"done")

    target = listen(listen_privately("here")[0], converse=converse, most_waiting=1)
    with connect(target, b"s", "slot", timeout_s=5) as channel:
        channel.send_bytes(b"long")
        assert entered.wait(5)
        assert talk(target) == b"done"
        go_on.set()
        assert channel.recv_bytes() == b"done"


# Another user


def test_socket_lies_where_no_other_user_gets_to_it(listen, public, nobody):
    stream, path = listen_privately("here")
    target = listen(stream)
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    with pytest.raises(PermissionError):
        nobody.do(lambda: connect(target, b"s", "slot", timeout_s=5))
    with pytest.raises(PermissionError):
        nobody.do(lambda: os.unlink(path))


def test_other_user_who_gets_to_a_socket_all_the_same_is_not_listened_to(listen, public, nobody):
    own = socket.socket(socket.AF_UNIX)
    own.bind(str(public / "open"))
    own.listen()
    (public / "open").chmod(0o777)
    target = listen(own)
    with pytest.raises(OSError):  # closed before a byte of its proof was read
        nobody.do(lambda: talk(target))
    assert talk(target) == b"hello"


def test_other_user_who_takes_the_place_of_a_dead_process_is_not_asked(public, nobody):
    """It knows the secret even: the kernel tells who it is."""
    path = str(public / "taken")
    ready, said = public / "ready", public / "said"

    def impersonate():
        with socket.socket(socket.AF_UNIX) as stream:
            stream.bind(path)
            os.chmod(path, 0o777)
            stream.listen()
            ready.touch()
            with stream.accept()[0] as asked:
                asked.settimeout(5)
                said.write_bytes(asked.recv(100))

    ended = nobody.begin(impersonate)
    while not ready.exists():
        time.sleep(0.01)
    with pytest.raises(HandshakeError, match=f"user {nobody.uid}, not this one"):
        connect(path, b"s", "slot", timeout_s=5)
    ended()
    assert said.read_bytes() == b""


def test_kernel_tells_who_the_other_end_is():
    one, other = socket.socketpair()
    with one, other:
        assert peer_user(one) == os.geteuid()
        assert (
            struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] == os.getpid()
        )


def test_directory_that_another_user_took_is_gone_round(listen, public, nobody, monkeypatch):
    monkeypatch.setattr(sockets, "_SHORT_BASES", ())
    taken = user_directory()
    nobody.do(lambda: taken.mkdir(mode=0o777))
    stream, path = listen_privately("here")
    assert talk(listen(stream)) == b"hello"
    assert not path.is_relative_to(taken)
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    remove_private(path)
    assert list(public.iterdir()) == [taken]


# Files


def test_path_is_short_though_that_of_the_temporary_directory_is_long(listen, public, monkeypatch):
    long = public / ("t" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    monkeypatch.setattr(sockets, "_SHORT_BASES", (str(public),))
    stream, path = listen_privately("here")
    assert path.is_relative_to(public) and not path.is_relative_to(long)
    assert talk(listen(stream)) == b"hello"


def test_where_there_is_no_short_path_the_error_says_what_to_set(public, monkeypatch):
    long = public / ("t" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    monkeypatch.setattr(sockets, "_SHORT_BASES", ())
    with pytest.raises(NotPrivateError, match="short path") as caught:
        listen_privately("here")
    assert "TMPDIR" in caught.value.hint


def test_sockets_whose_process_is_gone_are_removed_by_the_next_of_their_place(public):
    dead, dead_path = listen_privately("here")
    dead.close()
    elsewhere, elsewhere_path = listen_privately("another container")
    elsewhere.close()
    living, living_path = listen_privately("here")
    assert not dead_path.exists() and elsewhere_path.exists()
    _, last_path = listen_privately("here")
    assert living_path.exists()
    living.close()
    remove_private(last_path)
    assert not Path(last_path).exists()
