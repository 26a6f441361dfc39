"""A master that is not there is missed before Spark looks for it."""

from __future__ import annotations

import socket

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import ConfigurationError
from millstream.runtime.spark.master import SparkMasterError, check_master_answers
from servers.ports import free_port


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed():
    return free_port()


def test_master_that_answers_is_enough(listening, closed):
    check_master_answers(f"spark://127.0.0.1:{closed},127.0.0.1:{listening}", ManualClock())


def test_masters_that_do_not_answer_are_named_with_the_reason(closed):
    clock = ManualClock()
    with pytest.raises(
        SparkMasterError, match=rf'no Spark master answers at "spark://127.0.0.1:{closed}'
    ) as error:
        check_master_answers(f"spark://127.0.0.1:{closed},no-such-host.invalid:7077", clock)
    assert error.value.detail.startswith(
        f"127.0.0.1:{closed}: Connection refused; no-such-host.invalid:7077: "
    )
    assert clock.monotonic() >= 5


def test_master_that_is_being_started_is_waited_for(closed):
    class Starting(ManualClock):
        server = None

        def wait(self, seconds, wake=None):
            self.server = self.server or socket.create_server(("127.0.0.1", closed))
            return super().wait(seconds, wake)

    clock = Starting()
    try:
        check_master_answers(f"spark://127.0.0.1:{closed}", clock)
    finally:
        clock.server.close()


@pytest.mark.parametrize("address", ["host", "host:", ":7077", "host:port", "a:1,b"])
def test_what_is_no_host_and_port_is_refused(address):
    with pytest.raises(ConfigurationError, match=f'in master "spark://{address}" is no host and port'):
        check_master_answers(f"spark://{address}", ManualClock())
