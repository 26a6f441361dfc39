"""One server of each cloud for a session; each test has a prefix of its own, at each of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from pyarrow import fs

from millstream.common import Configuration
from millstream.files.file_systems import FileSystemSettings, using
from servers.clouds import AzureServer, CloudServer, GcsServer
from servers.process import running

VARIABLES = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "MILLSTREAM_CONFIG")


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    yield from running(GcsServer(tmp_path_factory.mktemp("gcs")))


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    yield from running(AzureServer(tmp_path_factory.mktemp("azure")))


class Prefix:
    """A place in the bucket, seen with pyarrow as a test opens it."""

    def __init__(self, server: CloudServer) -> None:
        self.server = server
        self.files = server.file_system()
        self.key = f"{server.bucket}/test-{uuid.uuid4().hex[:12]}"
        self.uri = f"{server.root}/{self.key.partition('/')[2]}"
        self._published: dict[str, bytes] = {}

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all objects, by what follows the prefix."""
        found = self.files.get_file_info(fs.FileSelector(self.key, allow_not_found=True, recursive=True))
        return {each.path[len(self.key) + 1 :]: each.size for each in found if each.is_file}

    def objects(self) -> dict[str, bytes]:
        return {name: self.get(name) for name in self.sizes()}

    def get(self, name: str) -> bytes:
        with self.files.open_input_file(f"{self.key}/{name}") as file:
            return file.read()

    def put(self, name: str, data: bytes) -> None:
        with self.files.open_output_stream(f"{self.key}/{name}") as file:
            file.write(data)

    def lines(self) -> list[str]:
        """Return the lines of all objects that readers look at; those do not change."""
        names = [name for name in self.sizes() if not name.rpartition("/")[2].startswith(".")]
        for name in names:
            if name not in self._published:
                self._published[name] = self.get(name)
        return [line for name in names for line in self._published[name].decode().splitlines()]

    def hidden(self) -> list[str]:
        return [name for name in self.sizes() if name.rpartition("/")[2].startswith(".")]


# Azurite, asked by pyarrow, answers one removal in ten only after seven seconds.
@pytest.fixture(params=["gcs", pytest.param("azure", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CloudServer:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    found: CloudServer = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def prefix(server: CloudServer) -> Iterator[Prefix]:
    with using(FileSystemSettings.of(Configuration.from_dict(server.options), {})):
        yield Prefix(server)


@pytest.fixture
def new_prefix(prefix: Prefix):
    return lambda: Prefix(prefix.server)


@pytest.fixture
def told(server: CloudServer, monkeypatch: pytest.MonkeyPatch) -> CloudServer:
    """A server that every job of this process, and programs that it starts, know."""
    monkeypatch.setenv("MILLSTREAM_CONFIG", json.dumps(server.options))
    return server
