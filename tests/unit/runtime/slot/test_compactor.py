"""Files merged beside the slot say what the chain said; the process that merges them ends with the slot."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import pytest

from millstream.files.stores import open_store
from millstream.runtime.checkpoint.chain import StateChain
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader, StateFileWriter
from millstream.runtime.program.main_classes import register_main_classes
from millstream.runtime.protocol.orders import CompactionOrder
from millstream.runtime.slot.compactor import InlineCompactor, ProcessCompactor
from millstream.state.snapshots import KeyedStatePatch


@pytest.fixture(params=[ProcessCompactor, InlineCompactor])
def compactor(request):
    built = request.param()
    yield built
    built.close()


def wait_for(compactor):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        outcome = compactor.poll()
        if outcome is not None:
            return outcome
        time.sleep(0.01)
    raise AssertionError("nothing came of the compaction within a minute")


def write_chain(store, value=lambda number: number):
    """Ten keys in two groups; two patches change, add and remove some; beside them what is whole in each file."""
    whole = StateFileWriter()
    for group in (0, 1):
        entries = [(None, key, value(key)) for key in range(group, 10, 2)]
        whole.add("count", ChunkKind.KEYED, {"n": entries}, group)
    whole.add("count", ChunkKind.SCHEMAS, {"n": "value state"})
    whole.add("list", ChunkKind.OWN, ["old"])
    files = [whole]
    for number in (1, 2):
        delta = StateFileWriter()
        delta.add("count", ChunkKind.SCHEMAS, {"n": "value state"})
        delta.add("count", ChunkKind.PATCHED, None)
        changed = [(None, 0, value(number * 100)), (None, 10 * number, value(number))]
        patch = KeyedStatePatch({"n": changed}, {"n": [(None, 2 * number)]})
        delta.add("count", ChunkKind.PATCH, patch, 0)
        delta.add("list", ChunkKind.OWN, ["new", number])
        files.append(delta)
    return tuple(store.write(f"shared/{index}", file.finish()) for index, file in enumerate(files))


def contents(readers):
    chain = StateChain(readers)
    return {
        (operator_id, kind, group): content
        if kind is not ChunkKind.KEYED
        else {name: sorted(entries) for name, entries in content.items()}
        for operator_id in chain.operator_ids
        for kind in chain.kinds(operator_id)
        for group, content in chain.read(operator_id, kind)
    }


def test_the_merged_file_says_what_the_chain_says(compactor, tmp_path):
    store = open_store(str(tmp_path))
    refs = write_chain(store)
    expected = contents([StateFileReader(store.read(ref), ref.path) for ref in refs])
    assert expected["count", ChunkKind.KEYED, 0] == {
        "n": [(None, 0, 200), (None, 6, 6), (None, 8, 8), (None, 10, 1), (None, 20, 2)]
    }
    assert compactor.poll() is None
    compactor.start(CompactionOrder(str(tmp_path), refs, "shared/merged"))
    outcome = wait_for(compactor)
    assert outcome.error == ""
    assert outcome.through == "shared/2"
    assert outcome.file.path == "shared/merged"
    merged = StateFileReader(store.read(outcome.file), "merged")
    assert contents([merged]) == expected
    assert not any(chunk.kind is ChunkKind.PATCH for chunk in merged.chunks)
    assert compactor.poll() is None


def test_a_damaged_file_is_named(compactor, tmp_path):
    store = open_store(str(tmp_path))
    refs = write_chain(store)
    (tmp_path / "shared" / "1").unlink()
    compactor.start(CompactionOrder(str(tmp_path), refs, "shared/merged"))
    outcome = wait_for(compactor)
    assert outcome.file is None
    assert "shared/1" in outcome.error
    assert "missing" in outcome.error
    assert not (tmp_path / "shared" / "merged").exists()


@dataclass(order=True)
class Reading:
    number: int


def test_values_of_the_programs_own_classes_are_merged_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(Reading, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Reading", Reading, raising=False)
    register_main_classes([Reading])
    store = open_store(str(tmp_path))
    refs = write_chain(store, value=Reading)
    compactor = ProcessCompactor()
    compactor.start(CompactionOrder(str(tmp_path), refs, "shared/merged"))
    outcome = wait_for(compactor)
    assert outcome.error == ""
    entries = contents([StateFileReader(store.read(outcome.file), "merged")])["count", ChunkKind.KEYED, 0]
    assert (None, 0, Reading(200)) in entries["n"]


def test_the_process_ends_with_whoever_started_it():
    program = (
        "import time\n"
        "from millstream.runtime.slot.compactor import ProcessCompactor\n"
        "from millstream.runtime.protocol.orders import CompactionOrder\n"
        "from millstream.files.stores import FileRef\n"
        "import os\n"
        "os.mkfifo('fifo')\n"
        "compactor = ProcessCompactor()\n"
        "compactor.start(CompactionOrder('.', (FileRef('fifo', 1, ''),), 'merged'))\n"  # reading it never ends
        "print(compactor._process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with tempfile.TemporaryDirectory() as directory:
        parent = subprocess.Popen([sys.executable, "-c", program], cwd=directory, stdout=subprocess.PIPE)
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
        parent.wait()
        parent.stdout.close()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)
        assert not os.path.exists(f"/proc/{pid}")
