"""Who talks to whom is proved before anything else is said."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack

import pytest

from millstream.base.clock import SystemClock
from millstream.runtime.connect.channel import Channel, TamperedError
from millstream.runtime.connect.handshake import (
    Deadline,
    HandshakeError,
    Parties,
    prove_as_asker,
    prove_as_listener,
)

SLOT = Parties(b"secret", "slot 1", "unix")


@pytest.fixture
def pair():
    with ExitStack() as stack:
        yield tuple(stack.enter_context(each) for each in socket.socketpair())


def soon(seconds=5.0):
    return Deadline(SystemClock(), seconds)


def at_once(first, second):
    """Do two things; return what each gave or raised."""
    outcomes = {}

    def do(action):
        try:
            outcomes[action] = action()
        except Exception as error:
            outcomes[action] = error

    threads = [threading.Thread(target=do, args=(each,)) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes[first], outcomes[second]


def shake(pair, asker, listener):
    ask, listen = pair

    def prove():
        try:
            return prove_as_asker(ask, asker, soon())
        finally:
            ask.shutdown(socket.SHUT_WR)

    return at_once(prove, lambda: prove_as_listener(listen, listener, soon()))


def test_ends_that_know_the_secret_have_the_same_keys_one_for_each_direction(pair):
    asked, listened = shake(pair, SLOT, SLOT)
    assert asked.keys() == listened.keys()
    assert asked.keys().asker != asked.keys().listener


def test_each_connection_has_keys_of_its_own():
    keys = set()
    for _ in range(3):
        asked, _ = shake(socket.socketpair(), SLOT, SLOT)
        keys |= {asked.keys().asker, asked.keys().listener}
    assert len(keys) == 6


@pytest.mark.parametrize(
    "listener",
    [
        Parties(b"a guess", "slot 1", "unix"),
        Parties(b"secret", "slot 2", "unix"),
        Parties(b"secret", "slot 1", "tcp"),
    ],
    ids=["another secret", "another slot", "another kind of socket"],
)
def test_listener_that_is_not_meant_is_told_nothing(pair, listener):
    asked, listened = shake(pair, SLOT, listener)
    assert isinstance(asked, HandshakeError)
    assert isinstance(listened, ConnectionResetError), "the asker has proved nothing to it"


def test_asker_that_does_not_know_the_secret_is_turned_away(pair):
    ask, listen = pair

    def pretend():
        ask.sendall(b"millstrm" + bytes(32))
        answer = ask.recv(64)
        ask.sendall(answer[32:])  # the listener's own proof, sent back
        return answer

    _, listened = at_once(pretend, lambda: prove_as_listener(listen, SLOT, soon()))
    assert isinstance(listened, HandshakeError)


def test_challenge_that_is_handed_on_to_another_slot_opens_nothing(pair):
    """An impostor in the place of slot 1 asks slot 2 of the same attempt what to answer."""
    other = socket.socketpair()
    impostor, to_slot_2, slot_2 = pair[1], *other

    def relay():
        to_slot_2.sendall(impostor.recv(40))
        impostor.sendall(to_slot_2.recv(64))
        to_slot_2.sendall(impostor.recv(32))
        to_slot_2.close()

    def ask():
        try:
            return prove_as_asker(pair[0], SLOT, soon())
        finally:
            pair[0].close()

    between = threading.Thread(target=relay)
    between.start()
    asked, listened = at_once(
        ask, lambda: prove_as_listener(slot_2, Parties(b"secret", "slot 2", "unix"), soon())
    )
    between.join()
    assert isinstance(asked, HandshakeError)
    assert isinstance(listened, (HandshakeError, ConnectionResetError))


def test_who_sends_byte_after_byte_has_no_more_time_than_others(pair):
    ask, listen = pair
    stopped = threading.Event()

    def drip():
        while not stopped.wait(0.02):
            ask.sendall(b"m")

    dripping = threading.Thread(target=drip)
    dripping.start()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        prove_as_listener(listen, SLOT, soon(0.2))
    assert time.monotonic() - begun < 5
    stopped.set()
    dripping.join()


def test_what_speaks_another_protocol_is_turned_away(pair):
    ask, listen = pair
    ask.sendall(b"GET / HTTP/1.1\r\nHost: slot\r\nAccept: */*\r\n\r\n")
    with pytest.raises(HandshakeError, match="another protocol"):
        prove_as_listener(listen, SLOT, soon())


# Messages over a network


@pytest.fixture
def ends():
    """Two channels with codes, and the stream between them in both halves: what one sends, the other is to be given."""
    asker, at_asker = socket.socketpair()
    listener, at_listener = socket.socketpair()
    keys = shake(socket.socketpair(), SLOT, SLOT)[0].keys()
    with (
        Channel.of_asker(asker, keys) as ask,
        Channel.of_listener(listener, keys) as listen,
        at_asker,
        at_listener,
    ):
        yield ask, at_asker, at_listener, listen


def taken(stream, size):
    return b"".join(stream.recv(1) for _ in range(size))


MESSAGE = 4 + 5 + 4 + 32  # a message of five bytes and its code, each behind its length


def test_messages_come_as_they_were_sent(ends):
    ask, at_asker, at_listener, listen = ends
    for message in (b"first", b"secnd"):
        ask.send_bytes(message)
        at_listener.sendall(taken(at_asker, MESSAGE))
        assert listen.recv_bytes() == message


@pytest.mark.parametrize("position", [4, 8, MESSAGE - 1])
def test_message_that_is_changed_on_its_way_is_refused(ends, position):
    ask, at_asker, at_listener, listen = ends
    ask.send_bytes(b"first")
    data = bytearray(taken(at_asker, MESSAGE))
    data[position] ^= 1
    at_listener.sendall(data)
    with pytest.raises(TamperedError):
        listen.recv_bytes()


def test_message_that_is_repeated_left_out_or_sent_back_is_refused(ends):
    ask, at_asker, at_listener, listen = ends
    ask.send_bytes(b"first")
    first = taken(at_asker, MESSAGE)
    at_listener.sendall(first + first)
    assert listen.recv_bytes() == b"first"
    with pytest.raises(TamperedError):
        listen.recv_bytes()
    at_asker.sendall(first)
    with pytest.raises(TamperedError):
        ask.recv_bytes()
