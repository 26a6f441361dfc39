"""Exceptions under PyFlink's names (`pyflink.util.exceptions`), for programs that catch them.

There is no Java here, so nothing that comes from it is raised: millstream's own errors are in
`millstream.base.errors`. Those of tables and catalogs belong to the Table API.
"""

from __future__ import annotations

from millstream.base.errors import MillstreamError

__all__ = [
    "CatalogException",
    "DatabaseAlreadyExistException",
    "DatabaseNotEmptyException",
    "DatabaseNotExistException",
    "FunctionAlreadyExistException",
    "FunctionNotExistException",
    "JavaException",
    "ModelAlreadyExistException",
    "ModelNotExistException",
    "PartitionAlreadyExistsException",
    "PartitionNotExistException",
    "PartitionSpecInvalidException",
    "TableAlreadyExistException",
    "TableException",
    "TableNotExistException",
    "TableNotPartitionedException",
]


class JavaException(MillstreamError):
    """Root of these exceptions.

    Attributes:
        stack_trace: What happened.
    """

    code = "FLINK"
    domain = "user"

    def __init__(self, stack_trace: str) -> None:
        super().__init__(stack_trace)
        self.stack_trace = stack_trace

    def __str__(self) -> str:
        return self.stack_trace


class TableException(JavaException):
    """Something about tables does not fit."""


class CatalogException(JavaException):
    """A catalog failed."""


class DatabaseAlreadyExistException(JavaException):
    """A database to be made is there."""


class DatabaseNotEmptyException(JavaException):
    """A database to be dropped has tables."""


class DatabaseNotExistException(JavaException):
    """A database is not there."""


class FunctionAlreadyExistException(JavaException):
    """A function to be made is there."""


class FunctionNotExistException(JavaException):
    """A function is not there."""


class PartitionAlreadyExistsException(JavaException):
    """A partition to be made is there."""


class PartitionNotExistException(JavaException):
    """A partition is not there."""


class PartitionSpecInvalidException(JavaException):
    """A partition is named by columns that do not fit its table."""


class TableAlreadyExistException(JavaException):
    """A table or view to be made is there."""


class TableNotExistException(JavaException):
    """A table or view is not there."""


class ModelAlreadyExistException(JavaException):
    """A model to be made is there."""


class ModelNotExistException(JavaException):
    """A model is not there."""


class TableNotPartitionedException(JavaException):
    """A table without partitions was asked for one."""
