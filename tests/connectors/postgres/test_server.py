"""The server that the other tests run against."""

from __future__ import annotations

import psycopg
import pytest

from servers.postgres import PostgresDatabase


def test_what_was_committed_is_there_after_the_server_was_killed(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE numbers (n int)")
    postgres.execute("INSERT INTO numbers SELECT generate_series(1, 1000)")
    postgres.server.restart()
    assert postgres.execute("SELECT count(*), sum(n) FROM numbers") == [(1000, 500500)]


def test_a_server_that_is_paused_answers_nothing(postgres: PostgresDatabase) -> None:
    with postgres.connect() as connection:
        postgres.server.pause()
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            postgres.connect(connect_timeout=2)
        postgres.server.go_on()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_who_has_the_wrong_password_is_refused(postgres: PostgresDatabase) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url.replace(postgres.password, "wrong"))


def test_replication_slots_and_prepared_transactions_go_with_the_database(postgres: PostgresDatabase) -> None:
    slot = f"slot_{postgres.name}"
    postgres.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    connection = postgres.connect(autocommit=False)
    connection.tpc_begin(f"transaction_{postgres.name}")
    connection.execute("CREATE TABLE prepared (n int)")
    connection.tpc_prepare()
    connection.close()
    assert postgres.execute(
        "SELECT count(*) FROM pg_prepared_xacts WHERE database = %s", (postgres.name,)
    ) == [(1,)]
