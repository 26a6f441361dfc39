"""One S3 server for a session; each test has a prefix of its own in its bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from millstream.common import Configuration
from millstream.files.file_systems import FileSystemSettings, using
from servers.process import running
from servers.storage import S3Server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    yield from running(S3Server(tmp_path_factory.mktemp("s3")))


class Prefix:
    """A place in the bucket, seen with another client than the one that is tested."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.key = f"test-{uuid.uuid4().hex[:12]}"
        self.uri = f"s3://{server.bucket}/{self.key}"

    def objects(self) -> dict[str, bytes]:
        """Return all objects, by what follows the prefix."""
        keys = [key for key in self.server.keys(f"{self.key}/") if not key.endswith("/")]
        return {key[len(self.key) + 1 :]: self.server.get(key) for key in keys}

    def lines(self, *, hidden: bool = True) -> list[str]:
        """Return the lines of all objects, or of those that readers look at."""
        found = [data for name, data in self.objects().items() if hidden or not name.startswith(".")]
        return [line for data in found for line in data.decode().splitlines()]

    def uploads(self) -> list[str]:
        """Return the keys of the uploads that are under way."""
        tree = ElementTree.fromstring(self.server.request("GET", "", "uploads="))
        keys = [each.text or "" for each in tree.iter() if each.tag.endswith("Key")]
        return [key for key in keys if key.startswith(f"{self.key}/")]


@pytest.fixture
def prefix(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prefix]:
    for name in s3_server.environment:
        monkeypatch.delenv(name, raising=False)
    with using(FileSystemSettings.of(Configuration.from_dict(s3_server.options), {})):
        yield Prefix(s3_server)


@pytest.fixture
def new_prefix(prefix: Prefix):
    return lambda: Prefix(prefix.server)
