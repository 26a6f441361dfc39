"""`millstream connectors`: the systems that programs on this machine can read and write."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from millstream.spi.connector import FoundConnector, find_connectors, short_names

__all__ = ["command", "state_of"]


@click.command("connectors")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """List the connectors that are installed: what they have, whether what they need is there.

    Packages register them under the entry point group millstream.connectors.
    """
    found = find_connectors()
    if as_json:
        rows = [
            asdict(each) | {"missing": [] if each.connector is None else each.connector.missing()}
            for each in found
        ]
        click.echo(json.dumps(rows, indent=2))
    elif not found:
        click.echo("no connectors are registered: install millstream anew (pip install millstream)")
    else:
        _print_table(found)


def state_of(found: FoundConnector) -> str:
    """Return whether a connector can be used, and if not, what to do."""
    if found.connector is None:
        return f"cannot be loaded: {found.error}"
    missing = found.connector.missing()
    if not missing:
        return "ready"
    return f"needs {', '.join(missing)}: pip install '{found.connector.install or ' '.join(missing)}'"


def _print_table(found: list[FoundConnector]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("system", no_wrap=True)
    for title in ("sources", "sinks", "look-ups", "guarantee", "package", "state"):
        table.add_column(title, overflow="fold")
    for each in found:
        connector = each.connector
        names = ["", "", ""]
        if connector is not None:
            names = [short_names(kind) for kind in (connector.sources, connector.sinks, connector.lookups)]
        cells = [*names, "" if connector is None else connector.guarantee, f"{each.package} {each.version}"]
        table.add_row(each.name, *map(Text, cells), Text(state_of(each)))
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(table)
