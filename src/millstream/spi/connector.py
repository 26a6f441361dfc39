"""How connectors are found: each package names what it has under the entry point group `millstream.connectors`.

::

    [project.entry-points."millstream.connectors"]
    sqlite = "my_package.connectors:SQLITE"        # a `Connector`

A program imports sources and sinks as any other class; what is registered here is what `millstream connectors` and
`millstream doctor` list. So the module that holds a `Connector` must not import the client library of its system.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

__all__ = ["GROUP", "Connector", "FoundConnector", "find_connectors", "short_names", "version_of"]

GROUP = "millstream.connectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """What a package has for a system.

    Attributes:
        sources: Full names of its sources.
        sinks: Full names of its sinks.
        lookups: Full names of its look-ups.
        guarantee: What holds after failures, in a few words: `exactly once`.
        packages: Names of the packages that it needs, as pip knows them.
        install: What to give to pip for these: `millstream[kafka]`.
        page: Where it is described.

    Raises:
        ValueError: If there is neither a source nor a sink nor a look-up.

    Example:
        >>> from millstream.datastream.connectors.base import Connector
        >>> Connector(sources=("shop.SqliteSource",), guarantee="exactly once").missing()
        []
    """

    sources: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()
    guarantee: str = ""
    packages: tuple[str, ...] = ()
    install: str = ""
    page: str = ""

    def __post_init__(self) -> None:
        if not (self.sources or self.sinks or self.lookups):
            raise ValueError("a Connector has a source, a sink or a look-up at least")

    def missing(self) -> list[str]:
        """Return the packages that it needs and that are not installed."""
        return [package for package in self.packages if version_of(package) is None]


@dataclass(frozen=True, slots=True)
class FoundConnector:
    """A connector that is registered on this machine.

    Attributes:
        name: Its system, as the entry point is named.
        package: The package that registers it.
        version: Of that package.
        connector: What it says; None if it cannot be loaded.
        error: Why not; empty if it can.
    """

    name: str
    package: str
    version: str
    connector: Connector | None
    error: str = ""


def find_connectors() -> list[FoundConnector]:
    """Return all that is registered, by name; what cannot be loaded says why."""
    return sorted(
        map(_load, metadata.entry_points(group=GROUP)), key=lambda found: (found.name, found.package)
    )


def version_of(package: str) -> str | None:
    """Return the installed version of a package, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _load(entry: metadata.EntryPoint) -> FoundConnector:
    package = entry.dist.name if entry.dist is not None else ""
    version = entry.dist.version if entry.dist is not None else ""
    try:
        loaded = entry.load()
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one must not hide the others
        return FoundConnector(entry.name, package, version, None, f"{type(error).__name__}: {error}")
    if not isinstance(loaded, Connector):
        wrong = f"{entry.value} is a {type(loaded).__name__}, not a Connector"
        return FoundConnector(entry.name, package, version, None, wrong)
    return FoundConnector(entry.name, package, version, loaded)


def short_names(names: Iterable[str]) -> str:
    """Return the names of classes without their modules, as they are shown."""
    return ", ".join(name.rpartition(".")[2] for name in names)
