"""A catalog by its options (PyFlink's `CatalogDescriptor`)."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.base.errors import TypeMismatchError
from millstream.config.configuration import Configuration

__all__ = ["CatalogDescriptor"]


@dataclass(frozen=True)
class CatalogDescriptor:
    """What CREATE CATALOG says: a name, options with `type` among them, a comment; made by `of`.

    Example:
        >>> from millstream.table.catalog import CatalogDescriptor
        >>> from millstream.common import Configuration
        >>> options = Configuration().set_string("type", "generic_in_memory")
        >>> descriptor = CatalogDescriptor.of("shop", options, "of the shop")
        >>> descriptor.get_catalog_name(), descriptor.get_comment()
        ('shop', 'of the shop')
        >>> # t_env.create_catalog("shop", descriptor)
    """

    _name: str
    _configuration: Configuration
    _comment: str | None = None

    @staticmethod
    def of(catalog_name: str, configuration: Configuration, comment: str | None = None) -> CatalogDescriptor:
        """Make a descriptor.

        Raises:
            TypeMismatchError: If the options are no `Configuration`.

        >>> options = Configuration().set_string("type", "generic_in_memory")
        >>> CatalogDescriptor.of("shop", options).get_catalog_name()
        'shop'
        """
        if not isinstance(configuration, Configuration):
            raise TypeMismatchError(
                f'catalog "{catalog_name}" was given a {type(configuration).__name__}, not a Configuration'
            )
        return CatalogDescriptor(catalog_name, configuration, comment)

    def get_catalog_name(self) -> str:
        """Return the name."""
        return self._name

    def get_configuration(self) -> Configuration:
        """Return the options."""
        return self._configuration

    def get_comment(self) -> str | None:
        """Return what it is for, if that was said."""
        return self._comment
