"""Makes catalogs of CREATE CATALOG, by the option `type`; others' by the entry point `millstream.catalogs`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.config.configuration import Configuration
from millstream.table.catalog.catalog import Catalog, InMemoryCatalog
from millstream.table.errors import did_you_mean

__all__ = ["build_catalog"]

_ELSEWHERE = ("hive", "jdbc", "paimon", "iceberg")


def _in_memory(name: str, options: dict[str, str], comment: str, _: Configuration) -> Catalog:
    _check_known(name, options, ("type", "default-database"))
    return InMemoryCatalog(options.get("default-database", "default"), options, comment)


def _files(name: str, options: dict[str, str], comment: str, _: Configuration) -> Catalog:
    from millstream.table.catalog.file_catalog import FileCatalog

    _check_known(name, options, ("type", "path", "default-database"))
    if "path" not in options:
        raise ConfigurationError(
            f"catalog \"{name}\" of type file has no option 'path'", hint="Add 'path' = '...'."
        )
    return FileCatalog(name, options["path"], options.get("default-database", "default"), options, comment)


def _spark(name: str, options: dict[str, str], comment: str, configuration: Configuration) -> Catalog:
    from millstream.table.catalog.spark_catalog import SparkCatalog

    _check_known(name, options, ("type", "default-database"))
    return SparkCatalog(name, configuration, options.get("default-database"), options, comment)


_BUILT_IN: dict[str, Callable[[str, dict[str, str], str, Configuration], Catalog]] = {
    "file": _files,
    "generic_in_memory": _in_memory,
    "spark": _spark,
}


def build_catalog(
    name: str, options: dict[str, str], comment: str = "", configuration: Configuration | None = None
) -> Catalog:
    """Return the catalog of a CREATE CATALOG.

    Args:
        name: Its name in the session.
        options: What stands behind WITH.
        comment: What it is for.
        configuration: Options of the session's jobs.

    Raises:
        ConfigurationError: If it names no type, one that is not there, or an option does not fit.
        NotSupportedError: If Flink has the type and millstream does not.
    """
    kind = options.get("type")
    others = {point.name: point for point in entry_points(group="millstream.catalogs")}
    known = sorted({*_BUILT_IN, *others})
    if kind is None:
        raise ConfigurationError(
            f"catalog \"{name}\" has no option 'type'", detail=f"Types are: {', '.join(known)}."
        )
    if kind in others:
        made: Catalog = others[kind].load()(name, options, comment)
        return made
    if kind in _BUILT_IN:
        return _BUILT_IN[kind](name, options, comment, configuration or Configuration())
    if kind in _ELSEWHERE:
        raise NotSupportedError(
            f'catalog "{name}" has the type "{kind}", which is not in millstream yet',
            detail=f"Types are: {', '.join(known)}.",
        )
    raise ConfigurationError(
        f'catalog "{name}" has the type "{kind}", which was not found',
        detail=f"Types are: {', '.join(known)}.",
        hint=did_you_mean(kind, known),
    )


def _check_known(name: str, options: dict[str, str], known: tuple[str, ...]) -> None:
    for key in options:
        if key not in known:
            raise ConfigurationError(
                f"catalog \"{name}\" has the option '{key}', which its type does not take",
                detail=f"It takes: {', '.join(known)}.",
                hint=did_you_mean(key, known),
            )
