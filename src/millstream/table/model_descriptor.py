"""A model by its provider (PyFlink's `pyflink.table.model_descriptor`); models themselves cannot be created yet."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.config.option_types import ConfigOption
from millstream.table.schema import Schema
from millstream.table.sql.unparse import quote_text
from millstream.table.table_descriptor import option_key, option_text, with_clause

__all__ = ["ModelDescriptor"]


class ModelDescriptor:
    """A provider, options, and the columns that go in and come out.

    Args:
        provider: Name of the provider.
        options: By key, without the provider.
        input_schema: Columns that go in; None if that was not said.
        output_schema: Columns that come out; None if that was not said.
        comment: What it is for.
    """

    def __init__(
        self,
        provider: str,
        options: Mapping[str, str],
        input_schema: Schema | None = None,
        output_schema: Schema | None = None,
        comment: str | None = None,
    ) -> None:
        self._options = {"provider": provider, **options}
        self._input, self._output = input_schema, output_schema
        self._comment = comment

    @staticmethod
    def for_provider(provider: str) -> ModelDescriptor.Builder:
        """Begin a descriptor."""
        return ModelDescriptor.Builder(provider)

    def get_options(self) -> dict[str, str]:
        """Return all options, the provider among them."""
        return dict(self._options)

    def get_input_schema(self) -> Schema | None:
        """Return the columns that go in."""
        return self._input

    def get_output_schema(self) -> Schema | None:
        """Return the columns that come out."""
        return self._output

    def get_comment(self) -> str | None:
        """Return what it is for."""
        return self._comment

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelDescriptor) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._options.items())))

    def __str__(self) -> str:
        schemas = [f"{each}" if each is not None else "" for each in (self._input, self._output)]
        comment = [f"COMMENT {quote_text(self._comment)}"] if self._comment is not None else []
        return "\n".join([*schemas, *comment, with_clause(self._options)])

    __repr__ = __str__

    class Builder:
        """Makes a descriptor; each method returns the builder."""

        def __init__(self, provider: str) -> None:
            self._provider = provider
            self._options: dict[str, str] = {}
            self._input: Schema | None = None
            self._output: Schema | None = None
            self._comment: str | None = None

        def input_schema(self, input_schema: Schema) -> ModelDescriptor.Builder:
            """Set the columns that go in."""
            self._input = input_schema
            return self

        def output_schema(self, output_schema: Schema) -> ModelDescriptor.Builder:
            """Set the columns that come out."""
            self._output = output_schema
            return self

        def option(self, key: str | ConfigOption, value: object) -> ModelDescriptor.Builder:
            """Set an option."""
            self._options[option_key(key)] = option_text(value)
            return self

        def comment(self, comment: str) -> ModelDescriptor.Builder:
            """Say what it is for."""
            self._comment = comment
            return self

        def build(self) -> ModelDescriptor:
            """Make the descriptor."""
            return ModelDescriptor(self._provider, self._options, self._input, self._output, self._comment)
