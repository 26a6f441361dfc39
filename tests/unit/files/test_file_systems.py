"""How to reach file systems: who says it, who is told, and what is never shown."""

from __future__ import annotations

import pickle
import threading

import pytest

from millstream.base.errors import ConfigurationError
from millstream.config.configuration import Configuration
from millstream.files import file_systems
from millstream.files.file_systems import (
    FileSystemSettings,
    S3Settings,
    current,
    install,
    parse_location,
    using,
)
from millstream.files.remote import with_parameters
from millstream.files.stores import open_store

AWS = {
    "AWS_ACCESS_KEY_ID": "env-key",
    "AWS_SECRET_ACCESS_KEY": "env-secret",
    "AWS_SESSION_TOKEN": "env-token",
    "AWS_ENDPOINT_URL": "http://env:1",
    "AWS_REGION": "env-region",
}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    for name in (*AWS, "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "MILLSTREAM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(file_systems, "_installed", None)


def settings(environment=None, **options):
    keys = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return FileSystemSettings.of(Configuration.from_dict(keys), environment or {})


# Who says it


def test_options_are_read_under_both_of_their_spellings():
    one = settings(s3_access__key="k", s3_secret__key="s", s3_region="r", s3_path_style_access="true")
    other = settings(
        s3_access_key="k", s3_secret_key="s", s3_endpoint_region="r", **{"s3_path__style__access": True}
    )
    assert one.s3 == other.s3 == S3Settings(access_key="k", secret_key="s", region="r", path_style=True)


def test_options_come_before_the_environment_and_credentials_are_never_mixed():
    found = settings(AWS, s3_access__key="k", s3_secret__key="s", execution_checkpointing_dir="s3://b/c")
    assert found.s3 == S3Settings(
        access_key="k", secret_key="s", endpoint="http://env:1", region="env-region"
    )


def test_a_variable_for_s3_comes_before_the_one_for_all_of_aws():
    found = S3Settings.of_environment(AWS | {"AWS_ENDPOINT_URL_S3": "http://s3:1", "AWS_DEFAULT_REGION": "x"})
    assert (found.endpoint, found.region) == ("http://s3:1", "env-region")


@pytest.mark.parametrize(
    ("location", "told"), [("s3://b/c", True), ("s3a://b/c", True), ("hdfs://h:1/c", False), ("/c", False)]
)
def test_the_environment_goes_along_only_with_jobs_that_use_s3(location, told):
    for option in ("execution_checkpointing_dir", "high__availability_storageDir"):
        found = settings(AWS, **{option: location})
        assert (found.s3.secret_key == "env-secret") is told


def test_a_process_that_was_told_nothing_asks_its_own_environment(monkeypatch):
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    assert settings().s3_for(parse_location("s3://b")).session_token == "env-token"
    monkeypatch.setenv("MILLSTREAM_CONFIG", '{"s3.region": "of-the-command-line"}')
    assert current().s3_for(parse_location("s3://b")).region == "of-the-command-line"


def test_what_nobody_says_has_limits_all_the_same():
    found = settings().s3_for(parse_location("s3://b"))
    assert (found.connection_timeout_ms, found.socket_timeout_ms, found.max_retries) == (5_000, 10_000, 2)
    assert settings(s3_socket_timeout="1 min").s3_for(parse_location("s3://b")).socket_timeout_ms == 60_000


def test_what_a_location_says_holds_for_its_bucket_alone_and_before_all_else():
    found = settings(
        s3_access__key="k",
        s3_secret__key="s",
        s3_region="r",
        execution_checkpointing_dir="s3://URI:SE%2FCRET@b/c?region=u&scheme=http&endpoint_override=h:1",
    )
    of_bucket = found.s3_for(parse_location("s3://b"))
    assert (of_bucket.access_key, of_bucket.secret_key, of_bucket.region) == ("URI", "SE/CRET", "u")
    assert of_bucket.endpoint == "http://h:1"
    other = found.s3_for(parse_location("s3://other"))
    assert (other.access_key, other.secret_key, other.region) == ("k", "s", "r")


def test_settings_take_what_locations_say_along_to_other_processes():
    sent = pickle.dumps(
        settings(execution_checkpointing_dir="s3://URI:SECRET@b/c", **{"flink_hadoop_a_b": "c"})
    )
    received = pickle.loads(sent)
    assert received.s3_for(parse_location("s3://b")).secret_key == "SECRET"
    assert received.hadoop == {"a.b": "c"}


# Locations


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://b/c/", "s3://b/c"),
        ("S3A://b", "s3a://b"),
        ("s3://k:s@b/c", "s3://b/c"),
        ("s3://b/c?region=r", "s3://b/c"),
        ("s3://b/c/?region=r/job/chk-1", "s3://b/c/job/chk-1"),
        ("s3://b?region=r/job", "s3://b/job"),
        ("s3://b//c", "s3://b/c"),
        ("hdfs://host:8020/c/", "hdfs://host:8020/c"),
        ("hdfs:///c", "hdfs:///c"),
    ],
)
def test_locations_are_shown_without_what_is_to_be_kept(location, shown):
    assert str(parse_location(location)) == shown


@pytest.mark.parametrize("location", ["s3:///c", "s3://KEY:SE/CRET@b/c", "s3a://KEY:SECRET"])
def test_a_location_without_a_bucket_is_refused_and_not_repeated(location):
    with pytest.raises(ConfigurationError, match="names no bucket") as raised:
        parse_location(location)
    assert "CRET" not in str(raised.value).replace("KEY:SECRET@bucket", "")


def test_a_parameter_that_has_no_meaning_is_refused():
    with pytest.raises(ConfigurationError, match=r'"s3://b/c" has the parameter "regoin"'):
        parse_location("s3://k:s@b/c?regoin=r")


@pytest.mark.parametrize(
    "location",
    [
        "s3://b/c",
        "s3a://KEY:SE%2FC%3FR%40ET@b/c/d",
        "s3://b/c?region=r&scheme=http&endpoint_override=h:1&force_virtual_addressing=true",
        "s3://b?access_key=k&secret_key=s&session_token=t",
    ],
)
def test_an_address_says_all_that_the_uri_said_and_takes_further_parts(location):
    place = parse_location(location)
    assert parse_location(place.address) == place
    behind = parse_location(f"{place.address}/chk-7/x")
    assert (behind.path, behind.said) == (f"{place.path}/chk-7/x", place.said)
    assert place.address == str(place) or "SECRET" not in repr(place)


def test_a_token_in_a_location_belongs_to_its_credentials():
    said = parse_location("s3://b?access_key=k&secret_key=s&session_token=t").said
    assert (said.access_key, said.secret_key, said.session_token) == ("k", "s", "t")


# What a URI says does not stay behind


def test_what_a_location_says_is_not_there_for_who_asks_later():
    settings(execution_checkpointing_dir="s3://FIRST:SECRET@b/c")
    parse_location("s3://FIRST:SECRET@b/c")
    later = settings(
        execution_checkpointing_dir="s3://b/other", s3_access__key="second", s3_secret__key="other"
    )
    found = later.s3_for(parse_location("s3://b/other"))
    assert (found.access_key, found.secret_key) == ("second", "other")
    assert settings().s3_for(parse_location("s3://b")).access_key is None


def test_each_uri_of_a_bucket_has_its_own_credentials_and_those_without_have_the_checkpoints():
    found = settings(
        execution_checkpointing_dir="s3://CHECKPOINTS:1@b/c",
        execution_checkpointing_savepoint__dir="s3://SAVEPOINTS:2@b/s",
    )
    keys = [
        found.s3_for(parse_location(location)).access_key
        for location in ("s3://CHECKPOINTS:1@b/c", "s3://SAVEPOINTS:2@b/s", "s3://SINK:3@b/x", "s3://b/y")
    ]
    assert keys == ["CHECKPOINTS", "SAVEPOINTS", "SINK", "CHECKPOINTS"]


def test_jobs_at_the_same_time_reach_one_bucket_each_with_its_own_credentials():
    pytest.importorskip("pyarrow")
    begun, seen = threading.Barrier(2), {}

    def job(key):
        with using(settings(execution_checkpointing_dir=f"s3://{key}:{key}-secret@b/c")):
            begun.wait(10)
            store = open_store(f"s3://{key}:{key}-secret@b/c")
            seen[key] = store._settings.secret_key, open_store(store.location)._settings.secret_key
            begun.wait(10)

    threads = [threading.Thread(target=job, args=(key,)) for key in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"one": ("one-secret",) * 2, "two": ("two-secret",) * 2}
    assert open_store("s3://b/c")._settings.secret_key is None


def test_a_store_is_opened_anew_by_its_address_and_shown_by_its_location():
    pytest.importorskip("pyarrow")
    store = open_store("s3://KEY:SECRET@b/c?region=r")
    assert store.location == "s3://b/c"
    again = open_store(f"{store.address}/chk-1")
    assert (again.location, again._settings) == ("s3://b/c/chk-1", store._settings)


@pytest.mark.parametrize(
    ("path", "roots", "key"),
    [
        ("s3://b/in/x", ["s3://k1:s@b/in"], "k1"),
        ("s3://b/in/x", ["s3://k1:s@b", "s3://k2:s@b/in", "s3://k3:s@b/in2"], "k2"),
        ("s3://b/in2/x", ["s3://k1:s@b/in"], None),
        ("s3://b/in/x", ["s3://k1:s@other/in", "/b/in"], None),
        ("s3://b/in/x", ["s3://k1:s@b/in/x"], "k1"),
        ("s3://b/in/x", ["s3://k1:s@b", "s3://b/in"], None),
    ],
)
def test_a_file_is_opened_with_what_the_uri_says_that_it_was_found_by(path, roots, key):
    opened = parse_location(with_parameters(path, roots))
    assert (str(opened), opened.said.access_key) == (path, key)


def test_local_files_are_opened_by_their_paths():
    assert with_parameters("/a/b", ["/a", "s3://k:s@b"]) == "/a/b"


# Who is told, and what is shown


def test_a_job_s_settings_hold_on_its_thread_and_a_process_s_on_all():
    ours, theirs, of_process = (settings(s3_region=name) for name in "abc")
    install(of_process)
    seen = []

    def other_job():
        with using(theirs):
            seen.append(current())
        seen.append(current())

    with using(ours):
        thread = threading.Thread(target=other_job)
        thread.start()
        thread.join()
        assert current() is ours
    assert current() is of_process
    assert seen == [theirs, of_process]


def test_credentials_are_not_shown():
    given = S3Settings(access_key="the access key", secret_key="the secret key", session_token="the token")
    whole = FileSystemSettings(s3=given, buckets={"b": given}, hadoop={"password": "the password"})
    for shown in (repr(given), repr(whole), given.scrub("the secret key, the token, the access key")):
        assert not [
            word for word in ("the secret key", "the token", "the access key", "password") if word in shown
        ]
