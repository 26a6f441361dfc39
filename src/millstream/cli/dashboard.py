"""`millstream dashboard`: the dashboard and the REST API for all jobs of this user on this machine."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import click

from millstream.cli.jobs import reporting_errors
from millstream.cli.options import JobOptions, config_option, parse_definitions

if TYPE_CHECKING:
    from millstream.config.configuration import Configuration

__all__ = ["command"]


@click.command("dashboard")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Port; 0 takes any that is free. [rest.port: 8081]"
)
@click.option(
    "--bind-address", metavar="ADDRESS", help="Address to listen on. [rest.bind-address: localhost]"
)
@click.option(
    "-D", "definitions", multiple=True, metavar="KEY=VALUE", callback=parse_definitions, help="Set an option."
)
@config_option
def command(
    port: int | None, bind_address: str | None, definitions: dict[str, str], config: str | None
) -> None:
    """Serve the dashboard and the REST API for the jobs of this user on this machine.

    Those that run, and the last that ended; until it is interrupted. Jobs start and end without it. docs/rest.md lists
    the paths; /openapi.json describes them.
    """
    if port is not None:
        definitions |= {"rest.port": str(port)}
    if bind_address is not None:
        definitions |= {"rest.bind-address": bind_address}
    JobOptions(definitions=definitions, config=config).export()
    with reporting_errors():
        _serve(_read_configuration(port))


def _read_configuration(port: int | None) -> Configuration:
    from millstream.config.configuration import Configuration
    from millstream.config.options_rest import REST_BIND_PORT

    configuration = Configuration.load(os.environ)
    if port is not None:  # the command's word is the last one
        configuration.remove_config(REST_BIND_PORT.key)
    return configuration


def _serve(configuration: Configuration) -> None:
    # Not needed to print help.
    from millstream.base.clock import SystemClock
    from millstream.base.signals import wait_for
    from millstream.rest.user_jobs import serve_user_jobs

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    server = serve_user_jobs(configuration, SystemClock())
    click.echo(f"dashboard and REST API at {server.address}")
    wait_for(ended)
    server.close()
