"""The forms in which user code sees a batch, and what it may return.

A function says by its annotation what it wants::

    def f(batch: pyarrow.RecordBatch)          also what a function without annotation gets
    def f(table: pyarrow.Table)
    def f(frame: pandas.DataFrame)
    def f(frame: polars.DataFrame)
    def f(columns: dict[str, numpy.ndarray])

and returns any of these. None of the libraries is imported before a function needs it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten

__all__ = ["BatchForm", "annotated_form", "as_mask", "as_record_batch", "form_of", "in_form"]


class BatchForm(Enum):
    """A form of a batch; the value is its name in messages."""

    RECORD_BATCH = "pyarrow.RecordBatch"
    TABLE = "pyarrow.Table"
    PANDAS = "pandas.DataFrame"
    POLARS = "polars.DataFrame"
    ARRAYS = "dict of numpy arrays"


_BY_CLASS = {
    ("pyarrow", "RecordBatch"): BatchForm.RECORD_BATCH,
    ("pyarrow", "Table"): BatchForm.TABLE,
    ("pandas", "DataFrame"): BatchForm.PANDAS,
    ("polars", "DataFrame"): BatchForm.POLARS,
    ("builtins", "dict"): BatchForm.ARRAYS,
    ("collections", "Mapping"): BatchForm.ARRAYS,
}
_ANY = (inspect.Parameter.empty, Any)


def form_of(function: Callable[..., Any]) -> BatchForm:
    """Return the form that a function's first parameter is annotated with.

    Raises:
        TypeMismatchError: If it takes nothing, or the annotation stands for no form of a batch.
    """
    parameter = _first_parameter(function)
    if parameter is None:
        return BatchForm.RECORD_BATCH
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            annotation = _resolved(function, parameter.name)
        except (KeyError, NameError) as error:
            raise TypeMismatchError(
                f"the annotation {annotation!r} of {shorten(function)} cannot be resolved: {error}",
                hint="Import the library in the module of the function, not only while types are checked.",
            ) from error
    if annotation in _ANY:
        return BatchForm.RECORD_BATCH
    form = _form_named(annotation)
    if form is None:
        raise TypeMismatchError(
            f"{shorten(function)} wants a {shorten(annotation)}, which is no form of a batch",
            detail=f"Forms of a batch: {', '.join(each.value for each in BatchForm)}.",
        )
    return form


def annotated_form(function: Callable[..., Any]) -> BatchForm | None:
    """Return the form that the parameter of a function is annotated with; None if it is not, or with something else."""
    try:
        parameter = _first_parameter(function)
        if parameter is None:
            return None
        annotation = parameter.annotation
        return _form_named(_resolved(function, parameter.name) if isinstance(annotation, str) else annotation)
    except (TypeMismatchError, KeyError, NameError):
        return None


def _first_parameter(function: Callable[..., Any]) -> inspect.Parameter | None:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # functions of extension modules have no signature
        return None
    if not parameters:
        raise TypeMismatchError(f"{shorten(function)} takes no batch", detail="It has no parameter.")
    return parameters[0]


def _resolved(function: Callable[..., Any], name: str) -> Any:
    target = function if inspect.isroutine(function) else type(function).__call__
    return typing.get_type_hints(target)[name]


def _form_named(annotation: Any) -> BatchForm | None:
    kind = typing.get_origin(annotation) or annotation
    return _BY_CLASS.get((getattr(kind, "__module__", "").partition(".")[0], getattr(kind, "__name__", "")))


def in_form(data: Any, form: BatchForm) -> Any:
    """Return a record batch in a form.

    Raises:
        ConfigurationError: If the library is not installed.
    """
    if form is BatchForm.RECORD_BATCH:
        return data
    if form is BatchForm.TABLE:
        import pyarrow as pa  # whoever has a record batch has it

        return pa.Table.from_batches([data])
    if form is BatchForm.PANDAS:
        _load("pandas")
        return data.to_pandas()
    if form is BatchForm.POLARS:
        return _load("polars").from_arrow(data)
    return {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(data.schema.names, data.columns, strict=True)
    }


def _load(library: str) -> Any:
    try:
        return __import__(library)
    except ImportError as error:
        raise ConfigurationError(
            f"a function wants {library}.DataFrame, and {library} is not installed",
            hint=f'Install the extra: pip install "millstream[{library}]".',
        ) from error


def as_record_batch(what: str, returned: Any) -> Any:
    """Return what a function returned as a record batch of the runtime's own.

    Args:
        what: The function's name in messages.
        returned: A batch in any form.

    Raises:
        TypeMismatchError: If it is no batch, or its columns do not go together.
    """
    import pyarrow as pa  # whoever has returned a batch had one

    form = _form_of_value(returned)
    try:
        if form is BatchForm.RECORD_BATCH:
            return returned
        if form is BatchForm.PANDAS:
            # A copy: the function may go on to change its frame.
            returned = pa.Table.from_pandas(returned.copy(), preserve_index=False).replace_schema_metadata()
        elif form is BatchForm.POLARS:
            returned = _without_views(returned.to_arrow())
        elif form is BatchForm.ARRAYS:
            return pa.RecordBatch.from_pydict({name: _own(column) for name, column in returned.items()})
        elif form is None:
            raise TypeMismatchError(
                f"{what} returned {shorten(returned)} of type {type(returned).__name__}, not a batch",
                detail=f"Forms of a batch: {', '.join(each.value for each in BatchForm)}.",
            )
    except (pa.ArrowException, ValueError, TypeError) as error:
        if isinstance(error, TypeMismatchError):
            raise
        raise TypeMismatchError(f"what {what} returned makes no batch: {error}") from error
    batches = returned.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=returned.schema)


def _form_of_value(value: Any) -> BatchForm | None:
    for kind in type(value).__mro__:
        form = _BY_CLASS.get((kind.__module__.partition(".")[0], kind.__name__))
        if form is not None:
            return form
    return BatchForm.ARRAYS if isinstance(value, Mapping) else None


def _own(column: Any) -> Any:
    """Return a column as an array that the function cannot change."""
    import pyarrow as pa  # whoever has returned a batch had one

    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    flags = getattr(column, "flags", None)
    return pa.array(column.copy() if flags is not None and flags.writeable else column)


def _without_views(table: Any) -> Any:
    """Return a table with plain strings where polars has its own kind, which few other formats know."""
    import pyarrow as pa  # whoever has returned a batch had one

    plain = {pa.string_view(): pa.string(), pa.large_string(): pa.string(), pa.binary_view(): pa.binary()}
    fields = [field.with_type(plain.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def as_mask(what: str, returned: Any, count: int) -> Any:
    """Return what a filter returned as an array of booleans, one for each row; null drops a row.

    Raises:
        TypeMismatchError: If it is none, or of another length.
    """
    import pyarrow as pa  # whoever was given a batch has it

    try:
        if isinstance(returned, pa.ChunkedArray):
            returned = returned.combine_chunks()
        to_arrow = getattr(returned, "to_arrow", None)
        mask = to_arrow() if callable(to_arrow) else pa.array(returned)
    except (pa.ArrowException, TypeError, ValueError):
        mask = None
    if mask is None or not (pa.types.is_boolean(mask.type) or (count == 0 and len(mask) == 0)):
        raise TypeMismatchError(
            f"{what} returned {shorten(returned)}, not booleans", detail="A filter returns one for each row."
        )
    if len(mask) != count:
        raise TypeMismatchError(
            f"{what} returned {len(mask)} booleans for a batch of {count} rows",
            detail="A filter returns one for each row.",
        )
    return mask.cast(pa.bool_())
