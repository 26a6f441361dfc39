"""What catalogs have of partitions, statistics, procedures and models: what is not there says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NoReturn
from urllib.parse import unquote

from millstream.base.errors import NotSupportedError
from millstream.table.catalog.catalog import Catalog, CatalogView, Entry, Statistics
from millstream.table.catalog.model import CatalogModel, Procedure
from millstream.table.catalog.object_identifier import ObjectPath
from millstream.table.catalog.partitions import CatalogPartition, CatalogPartitionSpec
from millstream.table.catalog.resolved import ResolvedTable
from millstream.table.catalog.statistics import CatalogColumnStatistics, CatalogTableStatistics
from millstream.table.errors import ValidationError, did_you_mean

__all__ = ["PartitionsAndModels"]


class PartitionsAndModels(ABC):
    """Partitions are the directories of tables of files; statistics are what ANALYZE TABLE counted."""

    @abstractmethod
    def _entry(self, path: ObjectPath) -> Entry: ...

    @abstractmethod
    def _checked(self, database: str) -> Catalog: ...

    # --- partitions

    def list_partitions(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec | None = None
    ) -> list[CatalogPartitionSpec]:
        """Return the partitions of a table of local files.

        Args:
            table_path: Its name.
            partition_spec: Values that they are to have; all by default.

        Raises:
            ValidationError: If the table is not there or not partitioned, or a key is none of its.
            NotSupportedError: If it is not of local files.
        """
        from millstream.table.connectors.listing import list_partitions  # connectors know catalogs

        wanted = {} if partition_spec is None else partition_spec.get_partition_spec()
        table = self._partitioned(table_path, wanted)
        found = list_partitions(table, wanted)
        return [CatalogPartitionSpec(_values(each)) for each in found]

    def get_partition(self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec) -> CatalogPartition:
        """Return a partition of a table of local files.

        Raises:
            ValidationError: If the table or the partition is not there.
            NotSupportedError: If it is not of local files.
        """
        if not self.partition_exists(table_path, partition_spec):
            there = "; ".join(each.values_text() for each in self.list_partitions(table_path))
            raise ValidationError(
                f'partition {partition_spec.values_text()} of table "{table_path}" was not found',
                detail=f"It has: {there or 'none'}.",
            )
        return CatalogPartition()

    def partition_exists(self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec) -> bool:
        """Return whether a table of local files has a partition.

        Raises:
            ValidationError: If the table is not there or not partitioned, or a key is none of its.
            NotSupportedError: If it is not of local files.
        """
        wanted = partition_spec.get_partition_spec()
        return any(
            each.get_partition_spec() == wanted for each in self.list_partitions(table_path, partition_spec)
        )

    def create_partition(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        partition: CatalogPartition,
        ignore_if_exists: bool,
    ) -> None:
        """Refuse to make a partition by hand.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_partition("create", table_path, partition_spec)

    def drop_partition(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec, ignore_if_not_exists: bool
    ) -> None:
        """Refuse to remove a partition.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_partition("drop", table_path, partition_spec)

    def alter_partition(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        new_partition: CatalogPartition,
        ignore_if_not_exists: bool,
    ) -> None:
        """Refuse to change a partition.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_partition("alter", table_path, partition_spec)

    def _partitioned(self, path: ObjectPath, wanted: Mapping[str, str]) -> ResolvedTable:
        entry = self._entry(path)
        if isinstance(entry, CatalogView) or not entry.partition_keys:
            raise ValidationError(f'"{path}" is not partitioned', hint="Write PARTITIONED BY (...).")
        for key in wanted:
            if key not in entry.partition_keys:
                raise ValidationError(
                    f'"{key}" is no partition key of table "{path}"',
                    detail=f"It is partitioned by: {', '.join(entry.partition_keys)}.",
                    hint=did_you_mean(key, entry.partition_keys),
                )
        return entry

    # --- statistics

    def get_table_statistics(self, table_path: ObjectPath) -> CatalogTableStatistics:
        """Return what ANALYZE TABLE counted in this session; numbers that are not known are -1.

        Raises:
            ValidationError: If the table is not there.
        """
        self._entry(table_path)
        return self._statistics(table_path, "")[0]

    def _statistics(self, path: ObjectPath, partition: str) -> Statistics:
        catalog = self._checked(path.get_database_name())
        known = catalog.statistics.get((path.get_database_name(), path.get_object_name(), partition))
        return known or (CatalogTableStatistics(), CatalogColumnStatistics())

    def get_table_column_statistics(self, table_path: ObjectPath) -> CatalogColumnStatistics:
        """Return what ANALYZE TABLE counted of columns in this session: `null_count`, `ndv`, `min`, `max`, ...

        Raises:
            ValidationError: If the table is not there.
        """
        self._entry(table_path)
        return self._statistics(table_path, "")[1]

    def get_partition_statistics(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> CatalogTableStatistics:
        """Return what ANALYZE TABLE counted in this session; numbers that are not known are -1.

        Raises:
            ValidationError: If the table or the partition is not there.
        """
        self.get_partition(table_path, partition_spec)
        return self._statistics(table_path, self._partition_name(table_path, partition_spec))[0]

    def _partition_name(self, path: ObjectPath, spec: CatalogPartitionSpec) -> str:
        entry, values = self._entry(path), spec.get_partition_spec()
        return "/".join(f"{key}={values[key]}" for key in getattr(entry, "partition_keys", ()))

    def get_partition_column_statistics(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec
    ) -> CatalogColumnStatistics:
        """Return what ANALYZE TABLE counted of columns in this session.

        Raises:
            ValidationError: If the table or the partition is not there.
        """
        self.get_partition(table_path, partition_spec)
        return self._statistics(table_path, self._partition_name(table_path, partition_spec))[1]

    def bulk_get_partition_statistics(
        self, table_path: ObjectPath, partition_specs: Sequence[CatalogPartitionSpec]
    ) -> list[CatalogTableStatistics]:
        """Return what `get_partition_statistics` does, of several partitions."""
        return [self.get_partition_statistics(table_path, each) for each in partition_specs]

    def bulk_get_partition_column_statistics(
        self, table_path: ObjectPath, partition_specs: Sequence[CatalogPartitionSpec]
    ) -> list[CatalogColumnStatistics]:
        """Return what `get_partition_column_statistics` does, of several partitions."""
        return [self.get_partition_column_statistics(table_path, each) for each in partition_specs]

    def alter_table_statistics(
        self, table_path: ObjectPath, table_statistics: CatalogTableStatistics, ignore_if_not_exists: bool
    ) -> None:
        """Refuse statistics.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_statistics(table_path)

    def alter_table_column_statistics(
        self, table_path: ObjectPath, column_statistics: CatalogColumnStatistics, ignore_if_not_exists: bool
    ) -> None:
        """Refuse statistics.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_statistics(table_path)

    def alter_partition_statistics(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        partition_statistics: CatalogTableStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        """Refuse statistics.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_statistics(table_path)

    def alter_partition_column_statistics(
        self,
        table_path: ObjectPath,
        partition_spec: CatalogPartitionSpec,
        column_statistics: CatalogColumnStatistics,
        ignore_if_not_exists: bool,
    ) -> None:
        """Refuse statistics.

        Raises:
            NotSupportedError: Always.
        """
        _refuse_statistics(table_path)

    # --- procedures

    def list_procedures(self, database_name: str) -> list[str]:
        """Return the names of the procedures of a database.

        Raises:
            ValidationError: If the database is not there.
        """
        return sorted(self._checked(database_name).procedures(database_name))

    def get_procedure(self, procedure_path: ObjectPath) -> Procedure:
        """Raise an error: there are no procedures.

        Raises:
            ValidationError: Always.
        """
        raise ValidationError(f'procedure "{procedure_path}" was not found: there are no procedures')

    # --- models

    def list_models(self, database_name: str) -> list[str]:
        """Return no names: there are no models.

        Raises:
            ValidationError: If the database is not there.
        """
        self._checked(database_name)
        return []

    def get_model(self, model_path: ObjectPath) -> CatalogModel:
        """Raise an error: there are no models.

        Raises:
            ValidationError: Always.
        """
        raise _no_model(model_path)

    def model_exists(self, model_path: ObjectPath) -> bool:
        """Return False: there are no models."""
        return False

    def drop_model(self, model_path: ObjectPath, ignore_if_not_exists: bool) -> None:
        """Do nothing: there are no models.

        Raises:
            ValidationError: If `ignore_if_not_exists` is not set.
        """
        if not ignore_if_not_exists:
            raise _no_model(model_path)

    def rename_model(self, model_path: ObjectPath, new_model_name: str, ignore_if_not_exists: bool) -> None:
        """Do nothing: there are no models.

        Raises:
            ValidationError: If `ignore_if_not_exists` is not set.
        """
        if not ignore_if_not_exists:
            raise _no_model(model_path)

    def create_model(self, model_path: ObjectPath, model: CatalogModel, ignore_if_exists: bool) -> None:
        """Refuse a model.

        Raises:
            NotSupportedError: Always.
        """
        raise NotSupportedError(
            f'create_model("{model_path}"): models are not in millstream yet',
            hint="Call the model in a function of your own: udf(...), or an AsyncScalarFunction.",
        )

    def alter_model(
        self, model_path: ObjectPath, new_model: CatalogModel, ignore_if_not_exists: bool
    ) -> None:
        """Do nothing: there are no models.

        Raises:
            ValidationError: If `ignore_if_not_exists` is not set.
        """
        if not ignore_if_not_exists:
            raise _no_model(model_path)


def _values(partition: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in partition.split("/"))
    return {key: unquote(value) for key, value in pairs}


def _refuse_partition(what: str, path: ObjectPath, spec: CatalogPartitionSpec) -> NoReturn:
    raise NotSupportedError(
        f'cannot {what} partition {spec.values_text()} of table "{path}": catalogs keep no partitions',
        detail="A partition of a table of files is a directory, which is made when its first row is written.",
        hint="Use INSERT INTO, or INSERT OVERWRITE with PARTITION (...).",
    )


def _refuse_statistics(path: ObjectPath) -> NoReturn:
    raise NotSupportedError(
        f'statistics of table "{path}" cannot be set: the planner reads none, and no catalog keeps them'
    )


def _no_model(path: ObjectPath) -> ValidationError:
    return ValidationError(f'model "{path}" was not found: there are no models')
