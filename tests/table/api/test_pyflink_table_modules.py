"""Modules of the Table API under PyFlink's names, and what they hold that has no other home."""

from __future__ import annotations

import importlib

import pytest

import millstream.table
from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common.typeinfo import Types
from millstream.table import (
    DataTypes,
    FormatDescriptor,
    PlanReference,
    Schema,
    TableDescriptor,
)
from millstream.table.catalog import ObjectPath
from millstream.table.descriptors import Rowtime
from millstream.table.descriptors import Schema as PropertiesSchema
from millstream.table.errors import ValidationError
from millstream.table.expressions import col
from millstream.table.model_descriptor import ModelDescriptor
from millstream.table.module import ModuleEntry
from millstream.table.resolved_expression import ResolvedExpression
from millstream.table.table_schema import TableSchema


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("table_environment", ["TableEnvironment", "StreamTableEnvironment"]),
        ("table_result", ["TableResult"]),
        ("result_kind", ["ResultKind"]),
        ("plan_reference", ["PlanReference"]),
    ],
)
def test_a_name_is_the_same_object_in_pyflinks_module_and_in_the_package(module, names):
    found = importlib.import_module(f"millstream.table.{module}")
    for name in names:
        assert getattr(found, name) is getattr(millstream.table, name)


# --- plans that are kept


def _csv_sink(t_env, directory):
    t_env.execute_sql(
        "CREATE TABLE sink (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', "
        f"'path' = '{directory}')"
    )


def _written(directory):
    files = (each for each in directory.rglob("*") if each.is_file() and not each.name.startswith((".", "_")))
    return sorted(line for file in files for line in file.read_text().splitlines())


@pytest.mark.parametrize("kind", ["file", "text"])
def test_a_kept_plan_is_loaded_and_executed(t_env, tmp_path, kind):
    out = tmp_path / "out"
    _csv_sink(t_env, out)
    plan = t_env.compile_plan_sql("INSERT INTO sink SELECT n * 2 FROM (VALUES (1), (20)) AS v(n)")
    if kind == "file":
        plan.write_to_file(tmp_path / "plan.json")
        reference = PlanReference.from_file(tmp_path / "plan.json")
        assert reference.get_file() == (tmp_path / "plan.json").resolve()
    else:
        reference = PlanReference.from_json_string(plan.as_json_string())
    assert t_env.load_plan(reference).explain() == plan.explain()
    t_env.execute_plan(reference).wait()
    assert _written(out) == ["2", "40"]


def test_a_plan_that_cannot_be_read_says_which(t_env, tmp_path):
    with pytest.raises(ConfigurationError, match=r"no\.json.*cannot be read"):
        t_env.load_plan(PlanReference.from_file(str(tmp_path / "no.json")))
    with pytest.raises(ConfigurationError, match="no JSON"):
        t_env.execute_plan(PlanReference.from_json_string("{"))
    with pytest.raises(NotSupportedError, match="3 bytes of Smile"):
        t_env.load_plan(PlanReference.from_smile_bytes(b":)\n"))
    with pytest.raises(TypeMismatchError, match="PlanReference"):
        t_env.load_plan("plan.json")


def test_references_to_plans_are_equal_by_what_they_refer_to():
    assert PlanReference.from_file("a") == PlanReference.from_file("a") != PlanReference.from_file("b")
    assert PlanReference.from_json_string("a") != PlanReference.from_file("a")


# --- models


def test_models_cannot_be_created_and_none_is_there_to_drop(t_env):
    model = (
        ModelDescriptor.for_provider("openai")
        .input_schema(Schema.new_builder().column("text", DataTypes.STRING()).build())
        .option("task", "classification")
        .comment("moods")
        .build()
    )
    assert model.get_options() == {"provider": "openai", "task": "classification"}
    assert (model.get_comment(), model.get_output_schema()) == ("moods", None)
    assert model.get_input_schema().columns == (("text", DataTypes.STRING()),)
    for create in (t_env.create_model, t_env.create_temporary_model):
        with pytest.raises(NotSupportedError, match=r'\("moods"\): models are not in millstream yet'):
            create("moods", model)
    assert t_env.drop_temporary_model("moods") is t_env.drop_model("moods") is False
    with pytest.raises(ValidationError, match='model "moods" was not found'):
        t_env.drop_model("moods", ignore_if_not_exists=False)


# --- declarations


def _numbers(count):
    return (
        TableDescriptor.for_connector("datagen")
        .schema(Schema.new_builder().column("n", DataTypes.INT()).build())
        .option("number-of-rows", str(count))
        .build()
    )


def test_a_table_that_is_there_may_be_ignored(t_env, rows_of):
    assert t_env.create_table("numbers", _numbers(2)) is True
    assert t_env.create_table("numbers", _numbers(5), ignoreIfExists=True) is False
    t_env.create_temporary_table("few", _numbers(3))
    t_env.create_temporary_table("few", _numbers(5), ignoreIfExists=True)
    assert (len(rows_of("SELECT n FROM numbers")), len(rows_of("SELECT n FROM few"))) == (2, 3)
    with pytest.raises(ValidationError, match="exists already"):
        t_env.create_table("numbers", _numbers(5))
    with pytest.raises(ValidationError, match="exists already"):
        t_env.create_temporary_table("few", _numbers(5), ignoreIfExists=False)


def test_a_view_is_made_of_a_stream_or_a_table(t_env, rows_of):
    stream = t_env._environment.from_collection(
        [(1, "a"), (2, "b")], Types.ROW([Types.INT(), Types.STRING()])
    )
    t_env.create_temporary_view("streamed", stream, col("id"), col("name"))
    assert rows_of("SELECT name, id FROM streamed") == [("a", 1), ("b", 2)]
    named = t_env._environment.from_collection(
        [(1, "a")], Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    )
    t_env.create_temporary_view("by_name", named, col("name").alias("who"), col("id"))
    assert t_env.from_path("by_name").get_resolved_schema().get_column_names() == ["who", "id"]
    assert rows_of("SELECT who, id FROM by_name") == [("a", 1)]
    t_env.create_temporary_view("tabled", table_or_data_stream=t_env.from_path("streamed"))
    assert rows_of("SELECT id FROM tabled") == [(1,), (2,)]
    with pytest.raises(TypeMismatchError, match="alias"):
        t_env.create_temporary_view("renamed", t_env.from_path("streamed"), col("x"))
    with pytest.raises(TypeMismatchError, match="given a int, not a Table"):
        t_env.create_temporary_view("number", 1)


def test_descriptors_are_equal_by_what_they_say():
    assert _numbers(2) == _numbers(2) != _numbers(3)
    assert len({_numbers(2), _numbers(2), _numbers(3)}) == 2
    csv = FormatDescriptor.for_format("csv").option("field-delimiter", ";")
    assert csv.build() == csv.build() != FormatDescriptor.for_format("csv").build()
    assert TableSchema(["a"], [DataTypes.INT()]) != TableSchema(["a"], [DataTypes.BIGINT()])


def test_a_result_has_a_schema_of_pyflinks_classes(t_env):
    result = t_env.execute_sql("SELECT 1 AS a, 'x' AS b")
    schema = result.get_resolved_schema()
    assert schema.get_column_names() == result.get_table_schema().get_field_names() == ["a", "b"]
    assert schema.get_column_data_types() == [DataTypes.INT(False), DataTypes.CHAR(1, False)]
    assert Schema.new_builder().from_resolved_schema(schema).build().columns == (
        ("a", DataTypes.INT(False)),
        ("b", DataTypes.CHAR(1, False)),
    )


def test_plans_and_pipelines_name_the_table_they_write(t_env, tmp_path):
    _csv_sink(t_env, tmp_path)
    pipeline = t_env.sql_query("SELECT CAST(1 AS BIGINT)").insert_into("sink")
    assert pipeline.get_sink_identifier().to_object_path() == ObjectPath("default_database", "sink")
    assert str(pipeline) == "TablePipeline with sink table '`default_catalog`.`default_database`.`sink`'"
    assert str(pipeline.compile_plan()) == pipeline.explain()


def test_a_modules_entry_has_methods_as_in_pyflink(t_env):
    (entry,) = t_env.list_full_modules()
    assert (entry.name(), entry.used()) == ("core", True)
    assert entry == ModuleEntry("core", True) != ModuleEntry("core", False)
    with pytest.raises(NotSupportedError, match="Java"):
        from millstream.table.module import HiveModule

        HiveModule("3.1.3")


# --- texts, as PyFlink 2.3 gives them


def test_texts_are_flinks():
    schema = (
        Schema.new_builder()
        .column("n", DataTypes.INT())
        .column_by_expression("x", "n+1")
        .column_by_metadata("p", DataTypes.INT(), "offset", True)
        .column("t", DataTypes.TIMESTAMP(3))
        .watermark("t", "t - INTERVAL '5' SECOND")
        .primary_key("n")
    )
    assert str(schema.build()).splitlines() == [
        "(",
        "  `n` INT,",
        "  `x` AS [n+1],",
        "  `p` INT METADATA FROM 'offset' VIRTUAL,",
        "  `t` TIMESTAMP(3),",
        "  WATERMARK FOR `t` AS [t - INTERVAL '5' SECOND],",
        "  CONSTRAINT `PK_n` PRIMARY KEY (`n`) NOT ENFORCED",
        ")",
    ]
    n = Schema.new_builder().column("n", DataTypes.INT()).build()
    table = TableDescriptor.for_connector("datagen").schema(n).partitioned_by("n").comment("it's").build()
    assert str(table) == (
        "(\n  `n` INT\n)\nCOMMENT 'it''s'\nPARTITIONED BY (`n`)\nWITH (\n  'connector' = 'datagen'\n)"
    )
    model = ModelDescriptor.for_provider("openai").input_schema(n).comment("c").build()
    assert str(model) == "(\n  `n` INT\n)\n\nCOMMENT 'c'\nWITH (\n  'provider' = 'openai'\n)"
    csv = FormatDescriptor.for_format("csv").option("field-delimiter", ";").build()
    assert str(csv) == "csv[{field-delimiter=;}]"
    assert str(PlanReference.from_file("/tmp/x.json")) == "Plan from file '/tmp/x.json'"
    assert str(PlanReference.from_smile_bytes(b"abc")) == "Plan:\n[97, 98, 99]"
    assert str(ModuleEntry("core", True)) == "ModuleEntry{name='core', used=true}"


# --- properties, the old form


def test_old_descriptors_give_flinks_properties():
    schema = (
        PropertiesSchema(fields={"n": "INT"})
        .field("t", DataTypes.TIMESTAMP(3))
        .from_origin_field("ts")
        .rowtime(Rowtime().timestamps_from_field("ts").watermarks_periodic_bounded(5000))
        .field("p", DataTypes.TIMESTAMP(3))
        .proctime()
    )
    assert schema.to_properties() == {
        "schema.0.name": "n",
        "schema.0.data-type": "INT",
        "schema.1.name": "t",
        "schema.1.data-type": "TIMESTAMP(3)",
        "schema.1.from": "ts",
        "schema.1.rowtime.timestamps.type": "from-field",
        "schema.1.rowtime.timestamps.from": "ts",
        "schema.1.rowtime.watermarks.type": "periodic-bounded",
        "schema.1.rowtime.watermarks.delay": "5000",
        "schema.2.name": "p",
        "schema.2.data-type": "TIMESTAMP(3)",
        "schema.2.proctime": "true",
    }
    assert Rowtime().timestamps_from_source().watermarks_from_source().to_properties() == {
        "rowtime.timestamps.type": "from-source",
        "rowtime.watermarks.type": "from-source",
    }


def test_old_descriptors_refuse_what_makes_no_sense():
    with pytest.raises(ConfigurationError, match='"n" twice'):
        PropertiesSchema().field("n", "INT").field("n", "INT")
    with pytest.raises(ConfigurationError, match="the schema has none"):
        PropertiesSchema().proctime()
    with pytest.raises(NotSupportedError, match=r"Java class org\.example\.Extractor"):
        Rowtime().timestamps_from_extractor("org.example.Extractor")


# --- expressions with types


def test_an_expression_with_a_type_goes_on_as_a_plain_expression():
    resolved = ResolvedExpression.of("n + 1", DataTypes.BIGINT())
    assert resolved.get_output_data_type() == DataTypes.BIGINT()
    assert resolved.as_serializable_string() == "`n` + 1"
    assert str(resolved) == resolved.as_summary_string() == "`n` + 1"
    assert str(ResolvedExpression.of(col("n") + 1, DataTypes.BIGINT())) == "plus(n, 1)"
    assert str(resolved.alias("m")) and not isinstance(resolved * 2, ResolvedExpression)
    with pytest.raises(TypeMismatchError, match="no expression"):
        ResolvedExpression.of(1, DataTypes.INT())
