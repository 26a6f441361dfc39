"""Python functions of CREATE FUNCTION: found by `module.attribute`."""

from __future__ import annotations

import importlib
from typing import Any

from millstream.table.catalog.catalog import CatalogFunction
from millstream.table.errors import ValidationError

__all__ = ["definition_of", "load_function"]


def load_function(function: CatalogFunction) -> Any:
    """Import a function and return its definition.

    Raises:
        ValidationError: If the module or the attribute is not there, or it is no user's function.
    """
    module, _, attribute = function.class_name.rpartition(".")
    name = ".".join(function.identifier)
    if not module:
        raise ValidationError(
            f"function \"{name}\" is '{function.class_name}', which names no module",
            hint="Write AS 'module.attribute' LANGUAGE PYTHON.",
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise ValidationError(
            f'module "{module}" of function "{name}" cannot be imported: {error}',
            hint="Put its directory on PYTHONPATH, or add the file: ADD FILE '...' or add_python_file(...).",
        ) from error
    except AttributeError as error:
        raise ValidationError(f'module "{module}" has no "{attribute}" for function "{name}"') from error
    return definition_of(found, name)


def definition_of(function: Any, name: str) -> Any:
    """Return the definition of what `udf`, `udtf`, `udaf` or `udtaf` gave, or of an object of a function's class.

    Raises:
        ValidationError: If it is something else.
    """
    from millstream.table import udf as functions  # heavy: only programs with functions
    from millstream.table.functions.process_definition import process_definition
    from millstream.table.process_functions import ProcessTableFunction

    if isinstance(function, functions.UserDefinedFunctionWrapper):
        return function.declared()
    if isinstance(function, type) and issubclass(function, functions.UserDefinedFunction):
        function = function()
    if isinstance(function, functions.AggregateFunction):
        return functions.udaf(function).declared()
    if isinstance(function, functions.TableAggregateFunction):
        return functions.udtaf(function).declared()
    if isinstance(function, ProcessTableFunction):
        return process_definition(function, name.rpartition(".")[2])
    raise ValidationError(
        f'function "{name}" is a {type(function).__name__}',
        hint="Make it with udf(...), udtf(...), udaf(...) or udtaf(...), or write a ProcessTableFunction.",
    )
