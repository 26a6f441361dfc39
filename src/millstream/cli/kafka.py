"""`millstream kafka`: what a Kafka sink may leave behind on a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from millstream.cli.jobs import EXIT_USAGE, reporting_errors

if TYPE_CHECKING:
    from millstream.connectors.kafka.clients import Cluster

__all__ = ["command"]


@click.group("kafka")
def command() -> None:
    """Look after Kafka clusters that jobs write to."""


@command.group("transactions")
def transactions() -> None:
    """See and end transactions that were left open: readers of committed messages wait for them."""


def _cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    servers = click.option("--bootstrap-servers", required=True, metavar="HOST:PORT,…", help="The brokers.")
    properties = click.option(
        "--property",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        help="One of Kafka's properties, such as security.protocol or sasl.jaas.config; may be repeated.",
    )
    return servers(properties(function))


@transactions.command("ls")
@_cluster_options
@click.option("--prefix", default="", help="Only those whose ids begin with it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for other programs.")
def list_open(bootstrap_servers: str, properties: tuple[str, ...], prefix: str, *, as_json: bool) -> None:
    """List the transactions that are open, how long they have been, and when the brokers would end them."""
    from millstream.connectors.kafka.left_open import open_transactions

    with reporting_errors():
        found = open_transactions(_cluster(bootstrap_servers, properties), prefix)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    if not found:
        click.echo("no transaction is open")
        return
    from millstream.base.clock import SystemClock

    now_ms = SystemClock().now_ms()
    width = max(len(each.transactional_id) for each in found)
    for each in found:
        age_s, timeout_s = (now_ms - each.started_ms) / 1000, each.timeout_ms / 1000
        topics = ", ".join(topic for topic in each.topics if not topic.startswith("__")) or "nothing yet"
        click.echo(f"{each.transactional_id:{width}}  open for {age_s:,.0f} of {timeout_s:,.0f} s  {topics}")


@transactions.command("abort")
@_cluster_options
@click.option("--prefix", required=True, help="Those whose ids begin with it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def abort_open(bootstrap_servers: str, properties: tuple[str, ...], prefix: str, *, yes: bool) -> None:
    """Abort open transactions: what they wrote is dropped. A producer that still has one of their ids fails."""
    from millstream.connectors.kafka.left_open import abort, open_transactions

    with reporting_errors():
        cluster = _cluster(bootstrap_servers, properties)
        found = [each.transactional_id for each in open_transactions(cluster, prefix)]
        if not found:
            click.echo(f"no transaction whose id begins with {prefix!r} is open")
            return
        if not yes:
            click.confirm(f"Abort {', '.join(found)}?", abort=True)
        for name in found:
            abort(cluster, name)
            click.echo(f"aborted {name}")


def _cluster(bootstrap_servers: str, properties: tuple[str, ...]) -> Cluster:
    from millstream.base.errors import SinkError
    from millstream.connectors.kafka.clients import Cluster
    from millstream.connectors.patience import Patience

    given = {}
    for each in properties:
        key, equals, value = each.partition("=")
        if not equals:
            click.echo("--property takes KEY=VALUE", err=True)
            sys.exit(EXIT_USAGE)
        given[key.strip()] = value
    return Cluster({**given, "bootstrap.servers": bootstrap_servers}, SinkError, Patience(total_s=10))
