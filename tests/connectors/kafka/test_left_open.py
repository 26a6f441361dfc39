"""`millstream kafka transactions`: what a dead producer left open is seen, and ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from connectors.kafka.committed import CommittedReader
from millstream.cli.main import main
from servers.kafka import KafkaServer


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["kafka", "transactions", *arguments])


@pytest.fixture
def left(kafka: KafkaServer, new_topic: Callable[..., str]) -> Iterator[str]:
    """A topic with a message in a transaction that nobody will end; its id is the topic's name with `-left`."""
    topic = new_topic()
    producer = kafka.producer({"transactional.id": f"{topic}-left"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"never")
    producer.flush(10)
    kafka.produce(topic, ["behind it"])
    yield topic


def at(kafka: KafkaServer) -> tuple[str, str]:
    return "--bootstrap-servers", kafka.bootstrap


def test_open_transactions_are_listed(kafka: KafkaServer, left: str) -> None:
    text = command("ls", *at(kafka), "--prefix", left).output
    assert text.startswith(f"{left}-left  open for ")
    assert text.endswith(f" of 60 s  {left}\n")
    found: list[dict[str, Any]] = json.loads(command("ls", *at(kafka), "--json").output)
    mine = [each for each in found if each["transactional_id"] == f"{left}-left"]
    assert [(each["timeout_ms"], each["topics"]) for each in mine] == [(60_000, [left])]
    assert command("ls", *at(kafka), "--prefix", "no-such").output == "no transaction is open\n"


def test_open_transactions_are_aborted_and_readers_go_on(kafka: KafkaServer, left: str) -> None:
    reader = CommittedReader(kafka, left, 1)
    assert reader.values() == []
    assert command("abort", *at(kafka), "--prefix", left, "--yes").output == f"aborted {left}-left\n"
    while not reader.values():
        pass
    assert reader.values() == ["behind it"]
    reader.close()
    expected = f"no transaction whose id begins with '{left}' is open\n"
    assert command("abort", *at(kafka), "--prefix", left, "--yes").output == expected


def test_transactions_stay_unless_it_is_confirmed(kafka: KafkaServer, left: str) -> None:
    refused = CliRunner().invoke(
        main, ["kafka", "transactions", "abort", *at(kafka), "--prefix", left], input="n\n"
    )
    assert refused.exit_code == 1
    assert "open for" in command("ls", *at(kafka), "--prefix", left).output


def test_the_login_is_given_by_properties_and_not_shown(kafka: KafkaServer, left: str) -> None:
    login = [part for key, value in kafka.login.items() for part in ("--property", f"{key}={value}")]
    servers = ("--bootstrap-servers", kafka.sasl_bootstrap)
    assert f"{left}-left" in command("ls", *servers, *login, "--prefix", left).output
    wrong = [part.replace(kafka.password, "guessed-it") for part in login]
    refused = command("ls", *servers, *wrong)
    assert refused.exit_code == 1
    assert "the broker refused the login" in refused.output
    assert "guessed-it" not in refused.output


def test_a_login_that_cannot_be_done_is_told(kafka: KafkaServer) -> None:
    scram = ("--property", "security.protocol=SASL_PLAINTEXT", "--property", "sasl.mechanism=SCRAM-SHA-256")
    user = ("--property", "sasl.jaas.config=ScramLoginModule required username='a' password='b';")
    told = command("ls", "--bootstrap-servers", kafka.bootstrap, *scram, *user)
    assert told.exit_code == 1
