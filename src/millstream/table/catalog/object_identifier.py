"""Full names of tables, views and functions (PyFlink's `ObjectIdentifier`)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ObjectIdentifier"]


@dataclass(frozen=True)
class ObjectIdentifier:
    """Catalog, database and name."""

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
