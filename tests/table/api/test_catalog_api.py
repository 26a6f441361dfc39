"""Catalogs through PyFlink's classes: what is done there is seen by SQL, and the other way round."""

from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.config.configuration import Configuration
from millstream.table import DataTypes, Schema, StreamTableEnvironment, TableEnvironment
from millstream.table.catalog import (
    Catalog,
    CatalogBaseTable,
    CatalogColumnStatistics,
    CatalogDatabase,
    CatalogDescriptor,
    CatalogFunction,
    CatalogModel,
    CatalogPartition,
    CatalogPartitionSpec,
    CatalogTableStatistics,
    HiveCatalog,
    JdbcCatalog,
    ObjectPath,
)
from millstream.table.catalog.catalog import InMemoryCatalog
from millstream.table.errors import ValidationError
from millstream.table.sql.errors import SqlParseError
from millstream.table.table_schema import TableSchema

NUMBERS = ObjectPath("default", "numbers")
COLUMNS = TableSchema(["n", "name"], [DataTypes.INT(), DataTypes.STRING()])


@pytest.fixture(params=["generic_in_memory", "file"])
def catalog(request, t_env, tmp_path):
    """A catalog `c` of either type, made through the API; the current one."""
    options = {"type": request.param}
    if request.param == "file":
        options["path"] = str(tmp_path / "catalog")
    t_env.create_catalog("c", CatalogDescriptor.of("c", Configuration.from_dict(options), "ours"))
    t_env.use_catalog("c")
    return t_env.get_catalog("c")


@pytest.fixture
def numbers(tmp_path):
    """A table of a file with two rows."""
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers" / "rows.csv").write_text("1,one\n2,two\n")
    options = {"connector": "filesystem", "format": "csv", "path": str(tmp_path / "numbers")}
    return CatalogBaseTable.create_table(COLUMNS, [], options, "some numbers")


def test_a_catalog_of_a_descriptor_is_seen_by_sql(t_env, catalog, rows_of):
    assert ("c",) in rows_of("SHOW CATALOGS")
    ((statement,),) = rows_of("SHOW CREATE CATALOG c")
    assert "COMMENT 'ours'" in statement
    assert isinstance(catalog, Catalog) and catalog == t_env.get_catalog("c")
    assert t_env.get_catalog("d") is None
    catalog_options = Configuration.from_dict({"type": "generic_in_memory"})
    with pytest.raises(ValidationError, match='"c" exists already'):
        t_env.create_catalog("c", CatalogDescriptor.of("c", catalog_options))
    with pytest.raises(TypeMismatchError, match="CatalogDescriptor"):
        t_env.create_catalog("d", {"type": "file"})


def test_databases(t_env, catalog, rows_of):
    assert (catalog.get_default_database(), catalog.list_databases()) == ("default", ["default"])
    shop = CatalogDatabase.create_instance({"owner": "me"}, "a shop")
    catalog.create_database("shop", shop, False)
    catalog.create_database("shop", CatalogDatabase.create_instance({}), True)
    assert rows_of("SHOW DATABASES") == [("default",), ("shop",)]
    found = catalog.get_database("shop")
    assert (found.get_properties(), found.get_comment()) == ({"owner": "me"}, "a shop")
    assert found == shop == shop.copy() and found.get_description() == "a shop"
    t_env.execute_sql("ALTER DATABASE shop SET ('owner' = 'you')")
    assert catalog.get_database("shop").get_properties() == {"owner": "you"}
    catalog.alter_database("shop", shop, False)
    assert catalog.get_database("shop").get_properties() == {"owner": "me"}
    t_env.use_database("shop")
    with pytest.raises(ValidationError, match="in use"):
        catalog.drop_database("shop", False)
    t_env.use_database("default")
    catalog.drop_database("shop", False)
    assert not catalog.database_exists("shop")


def test_databases_that_are_not_there(catalog):
    catalog.drop_database("shop", True)
    catalog.alter_database("shop", CatalogDatabase(), True)
    assert catalog.list_databases() == ["default"]
    for call in (
        lambda: catalog.drop_database("shop", False),
        lambda: catalog.alter_database("shop", CatalogDatabase(), False),
        lambda: catalog.get_database("shop"),
        lambda: catalog.list_tables("shop"),
        lambda: catalog.list_models("shop"),
    ):
        with pytest.raises(ValidationError, match='database "shop" was not found in catalog "c"'):
            call()
    with pytest.raises(ValidationError, match="exists already"):
        catalog.create_database("default", CatalogDatabase(), False)
    with pytest.raises(TypeMismatchError, match="not a CatalogDatabase"):
        catalog.create_database("shop", {"owner": "me"}, False)


def test_a_table_of_the_api_can_be_selected_from(t_env, catalog, numbers, rows_of):
    catalog.create_table(NUMBERS, numbers, False)
    catalog.create_table(NUMBERS, numbers, True)
    assert rows_of("SHOW TABLES") == [("numbers",)]
    assert rows_of("SELECT name, n FROM c.`default`.numbers") == [("one", 1), ("two", 2)]
    with pytest.raises(ValidationError, match="exists already"):
        catalog.create_table(NUMBERS, numbers, False)
    catalog.create_database("shop", CatalogDatabase(), False)
    catalog.create_table(ObjectPath("shop", "numbers"), catalog.get_table(NUMBERS), False)
    with pytest.raises(ValidationError, match="not empty"):
        catalog.drop_database("shop", False)
    assert rows_of("SELECT n FROM shop.numbers") == [(1,), (2,)]


def test_a_table_of_sql_is_seen_by_the_api_with_all_it_has(t_env, catalog, rows_of):
    t_env.execute_sql(
        "CREATE TABLE orders (id BIGINT, t TIMESTAMP(3) COMMENT 'when', twice AS id * 2, "
        "place BIGINT METADATA FROM 'offset' VIRTUAL, WATERMARK FOR t AS t - INTERVAL '5' SECOND, "
        "PRIMARY KEY (id) NOT ENFORCED) COMMENT 'all of them' PARTITIONED BY (id) "
        "WITH ('connector' = 'blackhole')"
    )
    table = catalog.get_table(ObjectPath("default", "orders"))
    assert table.get_options() == {"connector": "blackhole"}
    assert table.get_comment() == table.get_description() == "all of them" and not table.is_view
    schema = table.get_unresolved_schema()
    expected = (
        Schema.new_builder()
        .column("id", DataTypes.BIGINT(False))
        .column("t", DataTypes.TIMESTAMP(3))
        .column_by_expression("twice", "id * 2")
        .column_by_metadata("place", DataTypes.BIGINT(), "offset", True)
        .watermark("t", "t - INTERVAL '5' SECOND")
        .primary_key("id")
        .build()
    )
    assert repr(schema) == repr(expected).replace("id * 2", "`id` * 2").replace("AS t -", "AS `t` -")
    catalog.create_table(ObjectPath("default", "copied"), table.copy(), False)
    ((made,),), ((again,),) = rows_of("SHOW CREATE TABLE orders"), rows_of("SHOW CREATE TABLE copied")
    assert again == made.replace("`orders`", "`copied`")


def test_tables_are_renamed_altered_and_dropped(t_env, catalog, numbers, rows_of):
    catalog.create_table(NUMBERS, numbers, False)
    catalog.rename_table(NUMBERS, "digits", False)
    digits = ObjectPath("default", "digits")
    assert catalog.table_exists(digits) and not catalog.table_exists(NUMBERS)
    narrow = CatalogBaseTable.create_table(
        TableSchema(["n"], [DataTypes.INT()]),
        [],
        {**numbers.get_options(), "csv.ignore-parse-errors": "true"},
    )
    catalog.alter_table(digits, narrow, False)
    assert rows_of("DESCRIBE digits")[0][0] == "n" and len(rows_of("DESCRIBE digits")) == 1
    t_env.execute_sql("DROP TABLE digits")
    assert catalog.list_tables("default") == []
    catalog.drop_table(digits, True)
    catalog.alter_table(digits, narrow, True)
    catalog.rename_table(digits, "x", True)
    for call in (
        lambda: catalog.drop_table(digits, False),
        lambda: catalog.alter_table(digits, narrow, False),
        lambda: catalog.rename_table(digits, "x", False),
        lambda: catalog.get_table(digits),
        lambda: catalog.get_table_statistics(digits),
    ):
        with pytest.raises(ValidationError, match=r'table "default\.digits" was not found in catalog "c"'):
            call()


def test_what_is_no_table_or_no_path_is_refused(catalog, numbers):
    with pytest.raises(TypeMismatchError, match="ObjectPath"):
        catalog.get_table("default.numbers")
    with pytest.raises(TypeMismatchError, match="not a CatalogBaseTable"):
        catalog.create_table(NUMBERS, COLUMNS, False)
    with pytest.raises(TypeMismatchError, match="TableSchema or a Schema"):
        CatalogBaseTable.create_table({"n": "INT"})
    with pytest.raises(ValidationError, match='PARTITIONED BY names the column "m"'):
        catalog.create_table(NUMBERS, CatalogBaseTable.create_table(COLUMNS, ["m"]), False)


def test_views(t_env, catalog, numbers, rows_of):
    catalog.create_table(NUMBERS, numbers, False)
    view = CatalogBaseTable.create_view(
        "SELECT n * 10 FROM numbers",
        "SELECT n * 10 FROM c.`default`.numbers",
        TableSchema(["tens"], [DataTypes.INT()]),
        {},
        "times ten",
    )
    path = ObjectPath("default", "tens")
    catalog.create_table(path, view, False)
    t_env.execute_sql("CREATE VIEW named AS SELECT name AS label FROM numbers")
    assert sorted(catalog.list_views("default")) == ["named", "tens"]
    assert sorted(catalog.list_tables("default")) == ["named", "numbers", "tens"]
    assert rows_of("SELECT tens FROM tens") == [(10,), (20,)]
    assert catalog.get_table(path).get_comment() == "times ten" and catalog.get_table(path).is_view
    of_sql = catalog.get_table(ObjectPath("default", "named")).get_unresolved_schema()
    assert of_sql.columns == (("label", DataTypes.STRING()),)
    with pytest.raises(ValidationError, match="is a view and cannot be altered to a table"):
        catalog.alter_table(path, numbers, False)
    catalog.drop_table(path, False)
    assert rows_of("SHOW VIEWS") == [("named",)]
    with pytest.raises(SqlParseError):
        CatalogBaseTable.create_view("x", "SELEKT 1", COLUMNS, {})


def test_properties_of_a_view_are_kept_or_refused(catalog):
    view = CatalogBaseTable.create_view(
        "SELECT 1", "SELECT 1", TableSchema(["n"], [DataTypes.INT()]), {"a": "b"}
    )
    path = ObjectPath("default", "one")
    if catalog.keeper.options["type"] == "file":
        with pytest.raises(ConfigurationError, match="properties a"):
            catalog.create_table(path, view, False)
        assert not catalog.table_exists(path)
        return
    catalog.create_table(path, view, False)
    assert catalog.get_table(path).get_options() == {"a": "b"}


def test_temporary_tables_are_in_no_catalog(t_env, catalog, numbers, rows_of):
    catalog.create_table(NUMBERS, numbers, False)
    t_env.create_temporary_view("numbers", t_env.sql_query("SELECT 7 AS seven"))
    assert rows_of("SELECT * FROM numbers") == [(7,)]
    assert not catalog.get_table(NUMBERS).is_view and catalog.list_views("default") == []


def test_functions(t_env, catalog, rows_of):
    path = ObjectPath("default", "Joined")
    function = CatalogFunction.create_instance("posixpath.join")
    assert (function.get_class_name(), function.get_function_language()) == ("posixpath.join", "PYTHON")
    catalog.create_function(path, function, False)
    catalog.create_function(path, function, True)
    assert catalog.list_functions("default") == ["joined"] and catalog.function_exists(path)
    assert ("joined",) in rows_of("SHOW USER FUNCTIONS")
    catalog.alter_function(path, CatalogFunction.create_instance("posixpath.split"), False)
    assert catalog.get_function(path).get_class_name() == "posixpath.split"
    with pytest.raises(ValidationError, match="exists already"):
        catalog.create_function(path, function, False)
    catalog.drop_function(path, False)
    catalog.drop_function(path, True)
    catalog.alter_function(path, function, True)
    assert not catalog.function_exists(path) and not catalog.function_exists(ObjectPath("none", "f"))
    for call in (
        lambda: catalog.get_function(path),
        lambda: catalog.drop_function(path, False),
        lambda: catalog.alter_function(path, function, False),
    ):
        with pytest.raises(ValidationError, match=r'function "default\.Joined" was not found'):
            call()
    with pytest.raises(NotSupportedError, match="language Java"):
        CatalogFunction.create_instance("org.example.Join", "Java")


def test_partitions_are_the_directories_of_files(t_env, catalog, tmp_path, rows_of):
    catalog.create_table(
        NUMBERS,
        CatalogBaseTable.create_table(
            COLUMNS,
            ["name"],
            {"connector": "filesystem", "format": "csv", "path": str(tmp_path / "parts")},
        ),
        False,
    )
    t_env.execute_sql("INSERT INTO numbers VALUES (1, 'a'), (2, 'b/c'), (3, 'a')").wait()
    a, odd = CatalogPartitionSpec({"name": "a"}), CatalogPartitionSpec({"name": "b/c"})
    assert set(catalog.list_partitions(NUMBERS)) == {a, odd}
    assert catalog.list_partitions(NUMBERS, a) == [a]
    assert catalog.partition_exists(NUMBERS, odd) and catalog.get_partition(NUMBERS, a).get_properties() == {}
    assert len(catalog.list_partitions(NUMBERS)) == len(rows_of("SHOW PARTITIONS numbers"))
    missing = CatalogPartitionSpec({"name": "z"})
    with pytest.raises(ValidationError, match="partition name=z"):
        catalog.get_partition(NUMBERS, missing)
    with pytest.raises(ValidationError, match='"day" is no partition key'):
        catalog.list_partitions(NUMBERS, CatalogPartitionSpec({"day": "1"}))
    with pytest.raises(NotSupportedError, match="cannot create partition name=z"):
        catalog.create_partition(NUMBERS, missing, CatalogPartition.create_instance({}), False)


def test_statistics_are_unknown_and_cannot_be_set(catalog, numbers):
    catalog.create_table(NUMBERS, numbers, False)
    assert catalog.get_table_statistics(NUMBERS) == CatalogTableStatistics(-1, -1, -1, -1)
    assert catalog.get_table_column_statistics(NUMBERS) == CatalogColumnStatistics()
    known = CatalogTableStatistics(2, 1, 12, 12, {"seen": "today"})
    assert known.copy() == known and known.get_row_count() == 2 and known.get_total_size() == 12
    with pytest.raises(NotSupportedError, match=r'statistics of table "default\.numbers"'):
        catalog.alter_table_statistics(NUMBERS, known, False)


def test_there_are_no_models_and_no_procedures(catalog):
    path = ObjectPath("default", "moods")
    columns = Schema.new_builder().column("n", DataTypes.INT()).build()
    model = CatalogModel.create_model(columns, columns, {"provider": "openai"}, "moods")
    assert model.copy().get_options() == {"provider": "openai"} and model.get_comment() == "moods"
    assert catalog.list_models("default") == catalog.list_procedures("default") == []
    assert not catalog.model_exists(path)
    catalog.drop_model(path, True)
    with pytest.raises(ValidationError, match="was not found"):
        catalog.drop_model(path, False)
    with pytest.raises(NotSupportedError, match="models are not in millstream yet"):
        catalog.create_model(path, model, False)
    with pytest.raises(ValidationError, match="there are no procedures"):
        catalog.get_procedure(path)


def test_a_catalog_is_registered_in_another_environment_under_another_name(t_env, catalog, numbers):
    catalog.create_table(NUMBERS, numbers, False)
    other: TableEnvironment = StreamTableEnvironment.create(t_env._environment)
    other.register_catalog("d", catalog)
    other.register_catalog("e", InMemoryCatalog())
    assert other.list_catalogs() == ["d", "default_catalog", "e"]
    with other.execute_sql("SELECT n FROM d.`default`.numbers").collect() as rows:
        assert [row[0] for row in rows] == [1, 2]
    other.execute_sql("ALTER TABLE d.`default`.numbers RENAME TO digits")
    assert catalog.list_tables("default") == ["digits"]
    with pytest.raises(TypeMismatchError, match="not a Catalog"):
        other.register_catalog("f", "c")


def test_catalogs_of_hive_and_of_databases_say_why_they_are_not_there():
    with pytest.raises(NotSupportedError, match="Hive's client is one"):
        HiveCatalog("hive", hive_conf_dir="/etc/hive")
    with pytest.raises(NotSupportedError, match="jdbc:postgresql"):
        JdbcCatalog("pg", "postgres", "me", "secret", "jdbc:postgresql://localhost:5432")
