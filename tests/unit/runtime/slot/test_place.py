"""Which processes reach one another without a network."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from millstream.runtime.slot.place import ExecutorProcess, find_place, host_name, inspect_executor

TELL = [sys.executable, "-c", "from millstream.runtime.slot.place import find_place; print(find_place())"]


def tell(*before: str) -> str:
    return subprocess.run([*before, *TELL], capture_output=True, text=True, check=True).stdout.strip()


def test_processes_of_one_machine_share_a_place():
    assert tell() == find_place()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces")
@pytest.mark.parametrize("namespaces", [("--net",), ("--pid", "--fork")])
def test_containers_of_one_machine_and_one_name_are_different_places(namespaces):
    made = subprocess.run(["unshare", *namespaces, "true"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no namespaces here: {made.stderr.strip()}")
    assert tell("unshare", *namespaces) != find_place()


def test_executor_tells_the_address_that_spark_gave_it():
    command = [sys.executable, "-c", "print(flush=True); input()"]
    command += ["--executor-id", "3", "--hostname", "10.0.0.7", "--cores", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as executor:
        executor.stdout.readline()
        assert inspect_executor(executor.pid) == ExecutorProcess("3", "10.0.0.7", "10.0.0.7")
        executor.communicate(b"\n")


def test_what_is_no_executor_or_gone_has_this_hosts_own_name():
    assert inspect_executor(os.getpid()) == ExecutorProcess(None, host_name())
    assert inspect_executor(2**22 + 1) == ExecutorProcess(None, host_name())


def test_two_users_of_one_machine_are_different_places(nobody):
    assert nobody.do(find_place.__wrapped__) != find_place()
