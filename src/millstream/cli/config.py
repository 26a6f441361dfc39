"""`millstream config`: every option with its value and where it comes from."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from millstream.cli.options import (
    CONFIG_VARIABLE,
    JobOptions,
    check_settings,
    config_option,
    file_settings,
    inherited_settings,
    parse_definitions,
)

if TYPE_CHECKING:
    from millstream.config.options import ConfigOption

__all__ = ["OptionValue", "collect_values", "command"]


@dataclass(frozen=True)
class OptionValue:
    """One option as it is shown.

    Attributes:
        key: Its key.
        type: What it takes.
        default: What holds when nobody sets it; None for no value.
        value: What holds now.
        source: Where the value comes from.
        doc: What it does.
    """

    key: str
    type: str
    default: str | None
    value: str | None
    source: str
    doc: str


@click.command("config")
@click.option(
    "-D", "definitions", multiple=True, metavar="KEY=VALUE", callback=parse_definitions, help="Set an option."
)
@config_option
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="Print the reference page: without values.")
@click.argument("prefix", default="", metavar="[PREFIX]")
def command(definitions: dict[str, str], config: str | None, form: str | None, prefix: str) -> None:
    """List the options whose key begins with PREFIX (all without it).

    Each with its default, its value, and where that comes from: default, file and line, environment, command line.
    What programs set themselves is not seen here.
    """
    check_settings(definitions)
    JobOptions(definitions={}, config=config).export()
    values = [value for value in collect_values(definitions) if value.key.startswith(prefix)]
    if not values:
        raise click.UsageError(f'no option begins with "{prefix}"')
    _FORMS[form](values)


def collect_values(definitions: dict[str, str]) -> list[OptionValue]:
    """Return all options, then other keys that are set; values from files, the environment and `definitions`."""
    from millstream.config.options import ALL_OPTIONS, ConfigOption, OptionType, current_key
    from millstream.runtime.control.configuration import as_text, shown_value

    inherited = {current_key(key): value for key, value in inherited_settings().items()}
    definitions = {current_key(key): value for key, value in definitions.items()}
    check_settings({key: str(value) for key, value in inherited.items()})
    files = {current_key(setting.key): setting for setting in file_settings()}
    known = {option.key: option for option in ALL_OPTIONS}
    others = sorted((files.keys() | inherited.keys() | definitions.keys()) - known.keys())
    options = [*ALL_OPTIONS, *(ConfigOption(key, OptionType.STRING, None, "") for key in others)]
    values = []
    for option in options:
        value, source = option.default, "default"
        if option.key in files:
            value, source = option.convert(files[option.key].value), _shortened(files[option.key].place)
        if option.key in inherited:
            value, source = option.convert(inherited[option.key]), f"environment {CONFIG_VARIABLE}"
        if option.key in definitions:
            value, source = option.convert(definitions[option.key]), "command line"
        doc = (
            _documentation(option)
            if option.key in known
            else "Not an option of millstream; programs and Spark may read it."
        )
        default = as_text(option, option.default)
        values.append(
            OptionValue(option.key, option.type.value, default, shown_value(option, value), source, doc)
        )
    return values


def _shortened(place: str) -> str:
    """Return a place in a file, relative to the present directory if the file is below it."""
    return place.removeprefix(f"{os.getcwd()}{os.sep}")


def _documentation(option: ConfigOption) -> str:
    """Return what an option does, and under which older keys it is known as well."""
    older = ", ".join(option.fallback_keys)
    return f"{option.doc} Older: {older}." if older else option.doc


def _print_json(values: list[OptionValue]) -> None:
    click.echo(json.dumps([asdict(value) for value in values], indent=2, ensure_ascii=False))


def _print_markdown(values: list[OptionValue]) -> None:
    click.echo(
        "# Options\n\n"
        "All options with their defaults. [Configuration](configuration.md) says where they can be set: in the\n"
        "program, on the command line (`-D key=value`), in the environment or in a file. `make docs` makes this\n"
        "page of the code.\n\n"
        "| key | default | meaning |\n|---|---|---|"
    )
    for value in values:
        default = "" if value.default is None else f"`{value.default}`"
        click.echo(f"| `{value.key}` | {default} | {value.doc} Takes {value.type}. |")


def _print_table(values: list[OptionValue]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    # A file or pipe has no width: take enough for every key on one line.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    console = Console(width=width, highlight=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    longest = max(len(value.key) for value in values)
    # Keys are there to be copied: whole, wherever there is room.
    table.add_column("option", overflow="fold", min_width=min(longest, console.width // 2))
    for title in ("default", "value", "from"):
        table.add_column(title, overflow="fold")
    table.add_column("meaning", style="dim", overflow="fold", min_width=24)
    for value in values:
        style = None if value.source == "default" else "bold"
        cells = (value.key, value.default or "-", value.value or "-", value.source, value.doc)
        table.add_row(*cells, style=style)
    console.print(table)


_FORMS = {None: _print_table, "json": _print_json, "markdown": _print_markdown}
