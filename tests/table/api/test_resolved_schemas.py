"""Columns, watermarks and keys of resolved schemas."""

from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError
from millstream.table import DataTypes, Schema, TableDescriptor
from millstream.table.catalog import (
    Column,
    Constraint,
    ObjectIdentifier,
    ObjectPath,
    ResolvedSchema,
    UniqueConstraint,
    WatermarkSpec,
)
from millstream.table.resolved_expression import ResolvedExpression
from millstream.table.types import RowField, RowType

N = Column.physical("n", DataTypes.INT(False))
T = Column.physical("t", DataTypes.TIMESTAMP(3))
TWICE = Column.computed("twice", ResolvedExpression.of("n * 2", DataTypes.INT()))
PLACE = Column.metadata("place", DataTypes.BIGINT(), "offset", True)
STAMP = Column.metadata("stamp", DataTypes.TIMESTAMP(3), None, False)
LATE = ResolvedExpression.of("t - INTERVAL '5' SECOND", DataTypes.TIMESTAMP(3))


def schema():
    return ResolvedSchema(
        [N, T, TWICE, PLACE, STAMP], [WatermarkSpec.of("t", LATE)], UniqueConstraint.primary_key("pk", ["n"])
    )


@pytest.mark.parametrize(
    ("column", "physical", "persisted", "text"),
    [
        (N, True, True, "`n` INT NOT NULL"),
        (TWICE, False, False, "`twice` INT AS `n` * 2"),
        (PLACE, False, False, "`place` BIGINT METADATA FROM 'offset' VIRTUAL"),
        (STAMP, False, True, "`stamp` TIMESTAMP(3) METADATA"),
    ],
)
def test_kinds_of_columns(column, physical, persisted, text):
    assert (column.is_physical(), column.is_persisted(), str(column)) == (physical, persisted, text)
    other = column.rename("m").with_comment("it's").copy(DataTypes.STRING())
    assert (other.get_name(), other.get_comment()) == ("m", "it's")
    assert other.get_data_type() == DataTypes.STRING()
    assert str(other).startswith("`m` STRING") and str(other).endswith("COMMENT 'it''s'")
    assert type(other) is type(column) and other != column == column.rename(column.get_name())
    assert column.get_comment() is None


def test_rows_of_a_source_of_a_sink_and_stored_ones_differ():
    def row(*columns):
        fields = [RowField(each.get_name(), each.get_data_type()) for each in columns]
        return RowType(fields, nullable=False)

    assert schema().to_source_row_data_type() == row(N, T, TWICE, PLACE, STAMP)
    assert schema().to_physical_row_data_type() == row(N, T)
    assert schema().to_sink_row_data_type() == row(N, T, STAMP)


def test_a_schema_tells_of_its_parts():
    assert schema().get_primary_key_indexes() == [0]
    assert schema().get_column(1) == schema().get_column("t") == T
    assert schema().get_column(5) is schema().get_column("x") is None
    assert schema().get_primary_key().get_type() is Constraint.ConstraintType.PRIMARY_KEY
    assert not schema().get_primary_key().is_enforced()
    assert str(schema()).splitlines()[-3:] == [
        "  WATERMARK FOR `t`: TIMESTAMP(3) AS `t` - INTERVAL '5' SECOND,",
        "  CONSTRAINT `pk` PRIMARY KEY (`n`) NOT ENFORCED",
        ")",
    ]
    assert schema() == schema() != ResolvedSchema.of([N, T])


def test_a_schema_whose_parts_do_not_fit_is_refused():
    with pytest.raises(ConfigurationError, match='column "n" twice'):
        ResolvedSchema.of([N, N])
    with pytest.raises(ConfigurationError, match='primary key of a schema names the column "m"'):
        ResolvedSchema([N], [], UniqueConstraint.primary_key("pk", ["m"]))
    with pytest.raises(ConfigurationError, match='watermark of a schema names the column "t"'):
        ResolvedSchema([N], [WatermarkSpec.of("t", LATE)])


def test_a_table_is_declared_by_a_resolved_schema(t_env, rows_of, tmp_path):
    resolved = ResolvedSchema(
        [N, T, TWICE], [WatermarkSpec.of("t", LATE)], UniqueConstraint.primary_key("pk", ["n"])
    )
    (tmp_path / "numbers.csv").write_text("1,2024-01-01 00:00:00\n3,2024-01-01 00:00:01\n")
    descriptor = (
        TableDescriptor.for_connector("filesystem")
        .schema(Schema.new_builder().from_resolved_schema(resolved).build())
        .option("path", str(tmp_path))
        .format("csv")
        .build()
    )
    t_env.create_table("numbers", descriptor)
    assert rows_of("SELECT n, twice FROM numbers") == [(1, 2), (3, 6)]
    ((statement,),) = rows_of("SHOW CREATE TABLE numbers")
    assert "WATERMARK FOR `t` AS `t` - INTERVAL '5' SECOND" in statement
    assert "PRIMARY KEY (`n`) NOT ENFORCED" in statement


def test_names_of_objects():
    path = ObjectPath.from_string("shop.orders")
    assert path == ObjectPath("shop", "orders") and str(path) == path.get_full_name() == "shop.orders"
    assert sorted([path, ObjectPath("shop", "a")])[0].get_object_name() == "a"
    assert path.compare_to(ObjectPath("shop", "a")) > 0 == path.compare_to(path)
    full = ObjectIdentifier.of("c", "shop", "or`ders")
    assert full.to_object_path() == ObjectPath("shop", "or`ders")
    assert full.as_serializable_string() == "`c`.`shop`.`or``ders`"
    for wrong in ("orders", "a.b.c"):
        with pytest.raises(ConfigurationError, match=wrong):
            ObjectPath.from_string(wrong)
    with pytest.raises(ConfigurationError, match="database"):
        ObjectPath("", "orders")
