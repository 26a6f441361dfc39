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
import os
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten

__all__ = [
    "BatchForm",
    "annotated_form",
    "as_mask",
    "as_record_batch",
    "check_names",
    "form_of",
    "in_form",
    "name_of",
]


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


def name_of(function: object) -> str:
    """Return a function's name for messages, and where it is: lambdas have no other name."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def form_of(function: Callable[..., Any], *more: str) -> BatchForm:
    """Return the form that a function's first parameter is annotated with.

    Args:
        function: The function.
        more: What it is called with beside the batch, for messages.

    Raises:
        TypeMismatchError: If it is not to be called so, the annotation stands for no form of a batch, or what it
            returns is no batch but gives some when it is run: it is a generator or asynchronous.
    """
    _check_plain(function)
    signature = _signature(function)
    if signature is None:
        return BatchForm.RECORD_BATCH
    try:
        signature.bind(None, *more)
    except TypeError as error:
        raise TypeMismatchError(
            f"{name_of(function)} cannot be called with {' and '.join(['a batch', *more])}: {error}",
            detail=f"Its parameters: {signature}.",
        ) from error
    parameter = next(iter(signature.parameters.values()))
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            annotation = _resolved(function, parameter.name)
        except (KeyError, NameError) as error:
            raise TypeMismatchError(
                f"the annotation {annotation!r} of {name_of(function)} cannot be resolved: {error}",
                hint="Import the library in the module of the function, not only while types are checked.",
            ) from error
    if annotation in _ANY:
        return BatchForm.RECORD_BATCH
    form = _form_named(annotation)
    if form is None:
        raise TypeMismatchError(
            f"{name_of(function)} wants a {shorten(annotation)}, which is no form of a batch",
            detail=f"Forms of a batch: {', '.join(each.value for each in BatchForm)}.",
        )
    return form


def _check_plain(function: Callable[..., Any]) -> None:
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise TypeMismatchError(
            f"{name_of(function)} is asynchronous, and functions of batches are not waited for",
            hint="Return the batch from a plain function, or call services record by record with AsyncDataStream.",
        )
    if inspect.isgeneratorfunction(called):
        raise TypeMismatchError(
            f"{name_of(function)} is a generator, and returns no batch",
            hint="Return one batch; it may have more or fewer rows than came.",
        )


def annotated_form(function: Callable[..., Any]) -> BatchForm | None:
    """Return the form that the parameter of a function is annotated with; None if it is not, or with something else."""
    signature = _signature(function)
    if signature is None or not signature.parameters:
        return None
    parameter = next(iter(signature.parameters.values()))
    annotation = parameter.annotation
    try:
        return _form_named(_resolved(function, parameter.name) if isinstance(annotation, str) else annotation)
    except (KeyError, NameError):
        return None


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of a function; None if it has none, as those of extension modules."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


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
        TypeMismatchError: If it is no batch, its columns do not go together, or two have the same name.
    """
    import pyarrow as pa  # whoever has returned a batch had one

    form = _form_of_value(returned)
    if form is None:
        raise TypeMismatchError(
            f"{what} returned {_described(returned)}, not a batch",
            detail=f"Forms of a batch: {', '.join(each.value for each in BatchForm)}; or None for nothing.",
        )
    try:
        batch = _arrow_batch(what, form, returned)
    except (pa.ArrowException, ValueError, TypeError) as error:
        if isinstance(error, TypeMismatchError):
            raise
        raise TypeMismatchError(
            f"what {what} returned makes no batch: {', '.join(map(str, reversed(error.args)))}"
        ) from error
    check_names(f"what {what} returned", batch.schema.names)
    return batch


def check_names(what: str, names: Sequence[str]) -> None:
    """Check that no two columns have the same name.

    Raises:
        TypeMismatchError: If two have.
    """
    if len(set(names)) == len(names):
        return
    (twice, count), *_ = Counter(names).most_common(1)
    raise TypeMismatchError(
        f"{what} has {count} columns named {twice!r}",
        hint="Rename them: a record has one field of a name.",
    )


def _arrow_batch(what: str, form: BatchForm, returned: Any) -> Any:
    import pyarrow as pa  # whoever has returned a batch had one

    if form is BatchForm.ARRAYS:
        returned = pa.RecordBatch.from_pydict(
            {name: _own(what, name, each) for name, each in returned.items()}
        )
    elif form is BatchForm.PANDAS:
        # A copy: the function may go on to change its frame.
        returned = pa.Table.from_pandas(returned.copy(), preserve_index=False).replace_schema_metadata()
        returned = _in_types(returned, {pa.large_string(): pa.string()})
    elif form is BatchForm.POLARS:
        returned = _in_types(returned.to_arrow(), {pa.large_string(): pa.string()})
    # Arrow itself cannot take rows out of such columns.
    returned = _in_types(returned, {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()})
    if isinstance(returned, pa.RecordBatch):
        return returned
    batches = returned.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=returned.schema)


def _form_of_value(value: Any) -> BatchForm | None:
    for kind in type(value).__mro__:
        form = _BY_CLASS.get((kind.__module__.partition(".")[0], kind.__name__))
        if form is not None:
            return form
    return BatchForm.ARRAYS if isinstance(value, Mapping) else None


def _described(value: Any) -> str:
    """Return a value for messages; of what has many values inside the class only."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library in ("numpy", "pandas", "polars", "pyarrow"):
        return f"a {library}.{kind.__qualname__}"
    return shorten(value) if value is None else f"{shorten(value)} of type {kind.__name__}"


def _own(what: str, name: object, column: Any) -> Any:
    """Return a column as an array that the function cannot change."""
    import pyarrow as pa  # whoever has returned a batch had one

    if not isinstance(name, str):
        raise TypeMismatchError(f"what {what} returned has a column named {shorten(name)}, which is no text")
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        return pa.array(column.copy() if _may_change(column) else column)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise TypeMismatchError(
            f"column {name!r} of what {what} returned is {_described(column)}, which makes no column",
            detail=f"{error}.",
            hint="A column is an array or list with a value of one type for each row.",
        ) from error


def _may_change(column: Any) -> bool:
    """Tell whether an array of numpy's or a series of pandas' has its values where something can change them."""
    if not hasattr(column, "flags"):
        return False
    if not hasattr(column.flags, "writeable"):  # a series
        return True
    while column is not None and hasattr(column, "flags"):
        if column.flags.writeable:
            return True
        column = column.base
    return False


def _in_types(data: Any, instead: Mapping[Any, Any]) -> Any:
    """Return a table or record batch with other types of columns for some; itself if it has none of them."""
    import pyarrow as pa  # whoever has returned a batch had one

    if instead.keys().isdisjoint(data.schema.types):
        return data
    fields = [field.with_type(instead.get(field.type, field.type)) for field in data.schema]
    return data.cast(pa.schema(fields, metadata=data.schema.metadata))


def as_mask(what: str, returned: Any, count: int) -> Any:
    """Return what a filter returned as an array of booleans, one for each row; null drops a row.

    Raises:
        TypeMismatchError: If it is none, or of another length.
    """
    import pyarrow as pa  # whoever was given a batch has it

    try:
        mask = _arrow_array(returned)
    except (pa.ArrowException, KeyError, TypeError, ValueError):  # a frame is no sequence of its rows
        mask = None
    if not isinstance(mask, pa.Array):
        raise TypeMismatchError(
            f"{what} returned {_described(returned)}, not booleans",
            detail="A filter returns one for each row.",
        )
    if not (pa.types.is_boolean(mask.type) or pa.types.is_null(mask.type)):
        raise TypeMismatchError(
            f"{what} returned values of type {mask.type}, not booleans",
            detail="A filter returns one for each row.",
        )
    if len(mask) != count:
        raise TypeMismatchError(
            f"{what} returned {len(mask)} booleans for a batch of {count} rows",
            detail="A filter returns one for each row.",
        )
    return mask.cast(pa.bool_())


def _arrow_array(values: Any) -> Any:
    import pyarrow as pa  # whoever was given a batch has it

    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    to_arrow = getattr(values, "to_arrow", None)
    return to_arrow() if callable(to_arrow) else pa.array(values)
