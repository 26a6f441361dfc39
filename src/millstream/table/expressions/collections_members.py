"""Members of `Expression` that make functions of arrays, maps, rows and bitmaps."""

from __future__ import annotations

from typing import Any, Self

from millstream.table.expressions.building import Built

__all__ = ["CollectionsMembers"]


class CollectionsMembers(Built):
    """Functions of arrays, maps, rows and bitmaps; what is no expression becomes a literal."""

    def at(self, index: Any) -> Self:
        """Return `ITEM(self, index)`."""
        return self._call("ITEM", "at", self, index)

    @property
    def cardinality(self) -> Self:
        """Return `CARDINALITY(self)`."""
        return self._call("CARDINALITY", "cardinality", self)

    @property
    def element(self) -> Self:
        """Return `ELEMENT(self)`."""
        return self._call("ELEMENT", "element", self)

    def array_append(self, addition: Any) -> Self:
        """Return `ARRAY_APPEND(self, addition)`."""
        return self._call("ARRAY_APPEND", "arrayAppend", self, addition)

    def array_contains(self, needle: Any) -> Self:
        """Return `ARRAY_CONTAINS(self, needle)`."""
        return self._call("ARRAY_CONTAINS", "arrayContains", self, needle)

    def array_distinct(self) -> Self:
        """Return `ARRAY_DISTINCT(self)`."""
        return self._call("ARRAY_DISTINCT", "arrayDistinct", self)

    def array_position(self, needle: Any) -> Self:
        """Return `ARRAY_POSITION(self, needle)`."""
        return self._call("ARRAY_POSITION", "arrayPosition", self, needle)

    def array_prepend(self, addition: Any) -> Self:
        """Return `ARRAY_PREPEND(self, addition)`."""
        return self._call("ARRAY_PREPEND", "arrayPrepend", self, addition)

    def array_remove(self, needle: Any) -> Self:
        """Return `ARRAY_REMOVE(self, needle)`."""
        return self._call("ARRAY_REMOVE", "arrayRemove", self, needle)

    def array_reverse(self) -> Self:
        """Return `ARRAY_REVERSE(self)`."""
        return self._call("ARRAY_REVERSE", "arrayReverse", self)

    def array_slice(self, start_offset: Any, end_offset: Any = None) -> Self:
        """Return `ARRAY_SLICE(self, start_offset, end_offset)`."""
        return self._call("ARRAY_SLICE", "arraySlice", self, start_offset, end_offset)

    def array_sort(self, ascending_order: Any = None, null_first: Any = None) -> Self:
        """Return `ARRAY_SORT(self, ascending_order, null_first)`."""
        return self._call("ARRAY_SORT", "arraySort", self, ascending_order, null_first)

    def array_union(self, array: Any) -> Self:
        """Return `ARRAY_UNION(self, array)`."""
        return self._call("ARRAY_UNION", "arrayUnion", self, array)

    def array_concat(self, *arrays: Any) -> Self:
        """Return `ARRAY_CONCAT(self, arrays...)`."""
        return self._call("ARRAY_CONCAT", "arrayConcat", self, *arrays)

    def array_max(self) -> Self:
        """Return `ARRAY_MAX(self)`."""
        return self._call("ARRAY_MAX", "arrayMax", self)

    def array_join(self, delimiter: Any, null_replacement: Any = None) -> Self:
        """Return `ARRAY_JOIN(self, delimiter, null_replacement)`."""
        return self._call("ARRAY_JOIN", "arrayJoin", self, delimiter, null_replacement)

    def array_min(self) -> Self:
        """Return `ARRAY_MIN(self)`."""
        return self._call("ARRAY_MIN", "arrayMin", self)

    def array_except(self, array: Any) -> Self:
        """Return `ARRAY_EXCEPT(self, array)`."""
        return self._call("ARRAY_EXCEPT", "arrayExcept", self, array)

    def array_intersect(self, array: Any) -> Self:
        """Return `ARRAY_INTERSECT(self, array)`."""
        return self._call("ARRAY_INTERSECT", "arrayIntersect", self, array)

    @property
    def map_keys(self) -> Self:
        """Return `MAP_KEYS(self)`."""
        return self._call("MAP_KEYS", "mapKeys", self)

    def map_union(self, *maps: Any) -> Self:
        """Return `MAP_UNION(self, maps...)`."""
        return self._call("MAP_UNION", "mapUnion", self, *maps)

    @property
    def map_values(self) -> Self:
        """Return `MAP_VALUES(self)`."""
        return self._call("MAP_VALUES", "mapValues", self)

    @property
    def map_entries(self) -> Self:
        """Return `MAP_ENTRIES(self)`."""
        return self._call("MAP_ENTRIES", "mapEntries", self)

    def object_update(self, *kv: Any) -> Self:
        """Return `OBJECT_UPDATE(self, kv...)`."""
        return self._call("OBJECT_UPDATE", "objectUpdate", self, *kv)

    def bitmap_and(self, bitmap2: Any) -> Self:
        """Return `BITMAP_AND(self, bitmap2)`."""
        return self._call("BITMAP_AND", "bitmapAnd", self, bitmap2)

    def bitmap_andnot(self, bitmap2: Any) -> Self:
        """Return `BITMAP_ANDNOT(self, bitmap2)`."""
        return self._call("BITMAP_ANDNOT", "bitmapAndnot", self, bitmap2)

    def bitmap_or(self, bitmap2: Any) -> Self:
        """Return `BITMAP_OR(self, bitmap2)`."""
        return self._call("BITMAP_OR", "bitmapOr", self, bitmap2)

    def bitmap_xor(self, bitmap2: Any) -> Self:
        """Return `BITMAP_XOR(self, bitmap2)`."""
        return self._call("BITMAP_XOR", "bitmapXor", self, bitmap2)

    def bitmap_build(self) -> Self:
        """Return `BITMAP_BUILD(self)`."""
        return self._call("BITMAP_BUILD", "bitmapBuild", self)

    def bitmap_cardinality(self) -> Self:
        """Return `BITMAP_CARDINALITY(self)`."""
        return self._call("BITMAP_CARDINALITY", "bitmapCardinality", self)

    def bitmap_from_bytes(self) -> Self:
        """Return `BITMAP_FROM_BYTES(self)`."""
        return self._call("BITMAP_FROM_BYTES", "bitmapFromBytes", self)

    def bitmap_to_array(self) -> Self:
        """Return `BITMAP_TO_ARRAY(self)`."""
        return self._call("BITMAP_TO_ARRAY", "bitmapToArray", self)

    def bitmap_to_bytes(self) -> Self:
        """Return `BITMAP_TO_BYTES(self)`."""
        return self._call("BITMAP_TO_BYTES", "bitmapToBytes", self)

    def bitmap_to_string(self) -> Self:
        """Return `BITMAP_TO_STRING(self)`."""
        return self._call("BITMAP_TO_STRING", "bitmapToString", self)
