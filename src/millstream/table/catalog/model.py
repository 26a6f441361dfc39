"""Models and procedures of catalogs (PyFlink's `CatalogModel` and `Procedure`): no catalog keeps one yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millstream.table.schema import Schema

__all__ = ["CatalogModel", "Procedure"]


@dataclass(frozen=True)
class CatalogModel:
    """A model without its name: columns that go in and come out, options, a comment.

    Example:
        >>> from millstream.table.catalog import CatalogModel
        >>> from millstream.table import DataTypes, Schema
        >>> text = Schema.new_builder().column("text", DataTypes.STRING()).build()
        >>> mood = Schema.new_builder().column("mood", DataTypes.STRING()).build()
        >>> CatalogModel.create_model(text, mood, {"provider": "openai"}, "happy or not").get_options()
        {'provider': 'openai'}
    """

    _input: Schema
    _output: Schema
    _options: Mapping[str, str] = field(default_factory=dict)
    _comment: str | None = None

    @staticmethod
    def create_model(
        input_schema: Schema,
        output_schema: Schema,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogModel:
        """Make a model of its parts."""
        return CatalogModel(input_schema, output_schema, dict(options or {}), comment)

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._options)

    def get_comment(self) -> str | None:
        """Return what it is for."""
        return self._comment

    def copy(self) -> CatalogModel:
        """Return the same once more."""
        return replace(self, _options=dict(self._options))


class Procedure:
    """What CALL would run; there are none.

    Example:
        >>> from millstream.table import EnvironmentSettings, TableEnvironment
        >>> t_env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        >>> t_env.get_catalog("default_catalog").list_procedures("default_database")
        []
    """
