"""Changes as rows with their kind, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.base.errors import TypeMismatchError
from millstream.table.runtime.arrays import arrow_types
from millstream.table.runtime.row_operator import RowOperator

if TYPE_CHECKING:
    from millstream.table.runtime.process.changelog_specs import FromChangelogSpec, ToChangelogSpec

__all__ = ["FromChangelogOperator", "ToChangelogOperator"]


class ToChangelogOperator(RowOperator):
    """Adds a column with the kind of each change; all rows are inserts."""

    def __init__(self, spec: ToChangelogSpec) -> None:
        super().__init__(arrow_types(spec.input))
        width = len(spec.input)
        self._first = spec.partition
        self._rest = tuple(place for place in range(width) if place not in spec.partition)
        self._texts = pa.array(list(spec.codes), pa.string())
        self._given = np.array([each is not None for each in spec.codes])

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the changes that are given, with their texts."""
        codes = np.zeros(count, np.int8) if kinds is None else np.asarray(kinds)
        places = None
        if not self._given[codes].all():
            places = np.flatnonzero(self._given[codes])
            columns = [each.take(pa.array(places)) for each in columns]
            codes = codes[places]
        texts = self._texts.take(pa.array(codes, pa.int64()))
        return [
            *(columns[each] for each in self._first),
            texts,
            *(columns[each] for each in self._rest),
        ], places

    def kinds_given(self, kinds: Any | None, places: Any | None) -> Any | None:
        """Return None: all rows are inserts."""
        return None


class FromChangelogOperator(RowOperator):
    """Gives each row the kind that a column says, and leaves the column out."""

    def __init__(self, spec: FromChangelogSpec) -> None:
        super().__init__(arrow_types(spec.input))
        self._op = spec.op
        others = [each for each in range(len(spec.input)) if each != spec.op and each not in spec.partition]
        self._order = (*spec.partition, *others)
        self._texts = pa.array([text for text, _ in spec.codes], pa.string())
        self._codes = np.array([kind for _, kind in spec.codes], np.int8)
        self._kinds_found: Any | None = None

    def compute(
        self, columns: list[pa.Array], kinds: Any | None, count: int
    ) -> tuple[list[pa.Array], Any | None]:
        """Return the columns of each change.

        Raises:
            TypeMismatchError: If a text means no kind.
        """
        places = pc.index_in(columns[self._op], self._texts)
        if places.null_count:
            wrong = columns[self._op].filter(places.is_null())[0].as_py()
            raise TypeMismatchError(
                f"FROM_CHANGELOG received the invalid op code {wrong!r}",
                detail=f"Defined op codes are: {', '.join(self._texts.to_pylist())}.",
                hint="Name it in op_mapping, or leave such rows out by WHERE.",
            )
        codes = self._codes[places.to_numpy()]
        self._kinds_found = pa.array(codes, pa.int8()) if codes.any() else None
        return [columns[each] for each in self._order], None

    def kinds_given(self, kinds: Any | None, places: Any | None) -> Any | None:
        """Return the kinds that the rows say."""
        return self._kinds_found
