"""Full names of tables, views and functions (PyFlink's `ObjectIdentifier` and `ObjectPath`)."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.base.errors import ConfigurationError

__all__ = ["ObjectIdentifier", "ObjectPath"]


@dataclass(frozen=True, order=True)
class ObjectPath:
    """Database and name in it, of a table, view or function of one catalog.

    Raises:
        ConfigurationError: If one of them is empty.

    >>> from millstream.table.catalog import ObjectPath
    >>> ObjectPath("shop", "orders").get_full_name()
    'shop.orders'
    """

    database_name: str
    object_name: str

    def __post_init__(self) -> None:
        for what, text in (("database", self.database_name), ("object", self.object_name)):
            if not isinstance(text, str) or not text.strip():
                raise ConfigurationError(f"an ObjectPath was given {text!r} as the name of its {what}")

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        """Read `database.name`.

        Raises:
            ConfigurationError: If it has not two parts.
        """
        parts = full_name.split(".")
        if len(parts) != 2:
            raise ConfigurationError(
                f'the name "{full_name}" of an object has {len(parts)} parts',
                hint="Write database.name; ObjectPath(database, name) takes names that have dots.",
            )
        return ObjectPath(*parts)

    def get_database_name(self) -> str:
        """Return the database's name."""
        return self.database_name

    def get_object_name(self) -> str:
        """Return the name in the database."""
        return self.object_name

    def get_full_name(self) -> str:
        """Return both with a dot."""
        return f"{self.database_name}.{self.object_name}"

    def compare_to(self, other: ObjectPath) -> int:
        """Return a number below zero, zero, or above: whether it is sorted before, with or behind the other."""
        mine, theirs = self.get_full_name(), other.get_full_name()
        return (mine > theirs) - (mine < theirs)

    def __str__(self) -> str:
        return self.get_full_name()


@dataclass(frozen=True)
class ObjectIdentifier:
    """Catalog, database and name.

    Example:
        >>> from millstream.table.catalog import ObjectIdentifier
        >>> orders = ObjectIdentifier.of("default_catalog", "shop", "orders")
        >>> orders.as_summary_string(), orders.as_serializable_string()
        ('default_catalog.shop.orders', '`default_catalog`.`shop`.`orders`')
    """

    catalog_name: str
    database_name: str
    object_name: str

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        """Make a full name of its parts."""
        return ObjectIdentifier(catalog_name, database_name, object_name)

    def get_catalog_name(self) -> str:
        """Return the catalog's name."""
        return self.catalog_name

    def get_database_name(self) -> str:
        """Return the database's name."""
        return self.database_name

    def get_object_name(self) -> str:
        """Return the name in the database."""
        return self.object_name

    def to_object_path(self) -> ObjectPath:
        """Return database and name."""
        return ObjectPath(self.database_name, self.object_name)

    def to_list(self) -> list[str]:
        """Return the parts."""
        return [self.catalog_name, self.database_name, self.object_name]

    def as_serializable_string(self) -> str:
        """Return the name as SQL texts have it, each part in backquotes."""
        return ".".join("`" + part.replace("`", "``") + "`" for part in self.to_list())

    def as_summary_string(self) -> str:
        """Return the name with dots."""
        return ".".join(self.to_list())

    def __str__(self) -> str:
        return self.as_serializable_string()
