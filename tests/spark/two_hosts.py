"""Hosts made of Linux namespaces: each with its own address, temporary directory, host name and processes.

::

    this machine: bridge 10.213.n.1 ── link ── host 10.213.n.2   network, mounts, host name and processes of its own
                                    └─ link ── host 10.213.n.3   likewise

What works only because everything is on one machine - the loopback interface, Unix sockets, process numbers, files
in /tmp - does not work between them. What they share is named: the installation and one directory.

Needs root and the commands `ip` (iproute2), `unshare`, `nsenter` and `setpriv` (util-linux). Whatever happens to the
process that made them, the hosts end with it: the kernel kills their first process, and with that all others, and
removes their links. A bridge that was left is removed by the next that makes hosts.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark.find_spark_home import _find_spark_home

import millstream
from millstream.runtime.spark import java, jvm

ROOT = Path(millstream.__file__).resolve().parents[1]
TEMPORARY = Path("/tmp")
COMMANDS = ("ip", "unshare", "nsenter", "setpriv", "mount")


class NotPermittedError(Exception):
    """This machine, or this user, cannot make namespaces."""


class Host:
    """One host; made by `make_hosts`.

    Attributes:
        name: Its host name, which only itself can resolve.
        address: Its address.
        link: Name of its link on the bridge's side.
    """

    def __init__(self, name: str, address: str, bridge: str, private: Path, shared: Path) -> None:
        self.name = name
        self.address = address
        self.link = f"{bridge}{name[-1]}"
        private.mkdir()
        setup = ["mount --make-rprivate /"]
        for seen in _visible(shared):
            inside = private / seen.relative_to(TEMPORARY)
            inside.mkdir(parents=True)
            setup.append(f"mount --rbind {shlex.quote(str(seen))} {shlex.quote(str(inside))}")
        names = private / "hosts"
        names.write_text(f"127.0.0.1 localhost\n{address} {name}\n")
        setup += [
            f"mount --bind {shlex.quote(str(names))} /etc/hosts",
            f"mount --rbind {shlex.quote(str(private))} {TEMPORARY}",
            f"hostname {name}",
            "ip link set lo up",
            "echo ready",
            "read line",  # the link is there
            f"ip addr add {address}/24 dev eth0",
            "ip link set eth0 up",
            "echo linked",
            "sleep infinity & wait",  # the shell also buries what its host's processes leave
        ]
        self._outer = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--uts", "--net", "--pid", "--fork",
             "--kill-child", "--mount-proc", "sh", "-ec", "\n".join(setup)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            self._expect("ready")
            pid = self._outer.pid
            self.init = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
            run(f"ip link add {self.link} type veth peer name eth0 netns {self.init}")
            run(f"ip link set {self.link} master {bridge} up")
            assert self._outer.stdin is not None
            self._outer.stdin.write("\n")
            self._outer.stdin.flush()
            self._expect("linked")
        except BaseException:
            self.end()
            raise

    def _expect(self, word: str) -> None:
        assert self._outer.stdout is not None and self._outer.stderr is not None
        if self._outer.stdout.readline().strip() != word:
            self._outer.kill()
            raise NotPermittedError(self._outer.stderr.read().strip() or f"no host came to be {word}")

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a process there."""
        enter = ["nsenter", "--target", str(self.init), "--mount", "--uts", "--net", "--pid", "--"]
        with log.open("ab") as stream:
            return subprocess.Popen([*enter, *command], env=dict(environment), stdout=stream, stderr=stream)

    def has(self, pid: int) -> bool:
        """Tell whether a process, by its number on this machine, lives there."""
        try:
            return os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/{self.init}/ns/net")
        except OSError:
            return False

    def cut(self) -> None:
        """Take its link away: nobody hears of it, and it hears of nobody; its processes go on."""
        run(f"ip link set {self.link} down")

    def mend(self) -> None:
        """Give its link back."""
        run(f"ip link set {self.link} up")

    def end(self) -> None:
        """Kill all its processes at once; it cannot be used again."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(getattr(self, "init", self._outer.pid), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._outer.wait(20)  # it ends when the first process has, and that one when all others have
        self._outer.kill()
        self._outer.wait()
        for stream in (self._outer.stdin, self._outer.stdout, self._outer.stderr):
            assert stream is not None
            stream.close()


def run(command: str) -> None:
    """Run a command; what it complains about is the error."""
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPermittedError(f'"{command}": {done.stderr.strip()}')


def _visible(shared: Path) -> list[Path]:
    """Return what of the temporary directory every host is to see, outer directories first."""
    wanted = {shared.resolve(), ROOT, Path(pyspark.__file__).resolve().parent}
    wanted |= {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix, java.find_java().home)}
    below = sorted(path for path in wanted if path.is_relative_to(TEMPORARY))
    return [
        path for path in below if not any(path != other and path.is_relative_to(other) for other in below)
    ]


@contextlib.contextmanager
def make_hosts(private: Path, shared: Path, count: int = 2) -> Iterator[tuple[str, list[Host]]]:
    """Make hosts; give this machine's address on their network, and them.

    Args:
        private: An empty directory; each host's temporary directory is one in it.
        shared: A directory that all of them see.
        count: How many; at most nine.

    Raises:
        NotPermittedError: If this machine or user cannot.
    """
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise NotPermittedError(f"commands are missing: {', '.join(missing)}")
    if os.geteuid():
        raise NotPermittedError("only root can make network namespaces")
    _sweep()
    bridge = f"ms{os.getpid()}"
    network = _free_network()
    hosts: list[Host] = []
    try:
        run(f"ip link add {bridge} type bridge")
        run(f"ip addr add {network}.1/24 dev {bridge}")
        run(f"ip link set {bridge} up")
        for number in range(count):
            name = f"host{number}"
            address = f"{network}.{number + 2}"
            hosts.append(Host(name, address, bridge, private / name, shared))
        yield f"{network}.1", hosts
    finally:
        for host in hosts:
            host.end()
        for link in (*(host.link for host in hosts), bridge):
            subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)


def _sweep() -> None:
    """Remove the bridges of processes that are gone."""
    for entry in Path("/sys/class/net").iterdir():
        owner = re.fullmatch(r"ms(\d+)", entry.name)
        if owner and not Path(f"/proc/{owner.group(1)}").exists():
            subprocess.run(["ip", "link", "del", entry.name], capture_output=True, check=False)


def _free_network() -> str:
    taken = subprocess.run(["ip", "-4", "addr"], capture_output=True, text=True, check=False).stdout
    return next(found for number in range(256) if (found := f"10.213.{number}") + "." not in taken)


class Cluster:
    """A standalone Spark cluster: the master on this machine, a worker with one core on each host.

    Args:
        directory: For logs.
        gateway: This machine's address on the hosts' network.
        hosts: The hosts.
        environment: Of all its processes.
    """

    def __init__(
        self, directory: Path, gateway: str, hosts: Sequence[Host], environment: Mapping[str, str]
    ) -> None:
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []
        runtime = java.find_java()
        spark = jvm._jvm_environment(runtime, {"spark.master": "local-cluster[2,1,1024]"}, str(directory))
        del spark["SPARK_LOCAL_IP"]
        self._environment = {**environment, **spark, "PYTHONPATH": str(ROOT)}
        self._command = [
            runtime.path, *jvm._module_options(runtime.version), "-Xmx256m", "-Dspark.master.rest.enabled=false",
            "-Dspark.worker.timeout=15", "-cp", os.path.join(_find_spark_home(), "jars", "*"),
        ]  # fmt: skip
        self._log = directory / "master.log"
        command = [*self._command, "org.apache.spark.deploy.master.Master", "--host", gateway]
        try:
            with self._log.open("wb") as log:
                self._running.append(
                    subprocess.Popen(
                        [*command, "--port", "0", "--webui-port", "0"],
                        env=self._environment, stdout=log, stderr=log,
                    )
                )  # fmt: skip
            self.url = self._await(r"Starting Spark master at (spark://\S+)")
            for host in hosts:
                self.start_worker(host)
            for host in hosts:
                self._await(rf"Registering worker {re.escape(host.address)}()")
        except BaseException:
            self.stop()
            raise

    def start_worker(self, host: Host) -> None:
        """Start the worker of a host."""
        work = TEMPORARY / "work"  # its own
        arguments = [
            "--host",
            host.address,
            "--port",
            "0",
            "--webui-port",
            "0",
            "--cores",
            "1",
            "--memory",
            "1g",
        ]
        command = [
            *self._command,
            "org.apache.spark.deploy.worker.Worker",
            *arguments,
            "--work-dir",
            str(work),
        ]
        log = self._directory / f"{host.name}.log"
        self._running.append(host.start([*command, self.url], self._environment, log))

    def _await(self, pattern: str, limit_s: float = 120) -> str:
        deadline = time.monotonic() + limit_s
        while not (found := re.search(pattern, self._log.read_text())):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"not in the master's log within {limit_s} s: {pattern}\n{self._log.read_text()}"
                )
            time.sleep(0.05)
        return found.group(1)

    def stop(self) -> None:
        """End the master; workers end with their hosts."""
        for process in self._running:
            process.kill()
            process.wait()
