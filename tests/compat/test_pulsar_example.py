"""The example of the apache-flink wheel that talks to Pulsar, on a real server; only its address is another one."""

from __future__ import annotations

import threading

import pytest
from flink_wheel import run

from servers.pulsar import PulsarServer, PulsarTopic

pytestmark = pytest.mark.long


def test_messages_of_one_topic_are_published_to_another(examples, tmp_path):
    server = PulsarServer(tmp_path)
    server.start()
    try:
        source = (examples / "connectors/pulsar.py").read_text()
        source = source.replace("pulsar://localhost:6650", server.url)
        program = tmp_path / "example.py"  # pulsar.py is found in the place of the client library
        program.write_text(source.replace("http://localhost:8080", server.admin_url))
        options = ("-D", "millstream.execution.stop-when-idle=15 s")
        job = threading.Thread(target=run, args=(program,), kwargs={"options": options, "cwd": tmp_path})
        job.start()
        ada = PulsarTopic(server, "persistent://public/default/ada")
        while job.is_alive() and ada.cursor("pyflink_subscription") is None:
            job.join(0.2)  # it starts with what comes behind its begin
        job.join(1)
        ada.add(["tea", "milk"])
        job.join()
        assert PulsarTopic(server, "persistent://public/default/beta").read() == ["tea", "milk"]
    finally:
        server.stop()
