"""Retry predicates of asynchronous calls under PyFlink's names (`pyflink.datastream.async_retry_predicates`)."""

from millstream.common.async_functions import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]
