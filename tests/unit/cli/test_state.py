from __future__ import annotations

import json
import os
import textwrap
from dataclasses import dataclass
from enum import Enum

import pytest
from click.testing import CliRunner

from millstream.cli.main import main
from millstream.common import Row
from millstream.common.windows import TimeWindow
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.state_processor import BroadcastBootstrap, KeyedBootstrap, ListBootstrap, SavepointWriter


class Mood(Enum):
    GOOD = 1


@dataclass
class Account:
    balance: int
    mood: Mood


ACCOUNTS = [(f"k{n}", n) for n in range(30)] + [(7, 70), ("7", 77), (("a", 1), 11)]


@pytest.fixture
def state():
    def run(*arguments):
        return CliRunner().invoke(main, ["state", *map(str, arguments)])

    return run


@pytest.fixture
def save(tmp_path):
    def write(name="sp", accounts=ACCOUNTS, value=lambda row: row[1]):
        return (
            SavepointWriter.new(64)
            .with_operator(
                "accounts",
                KeyedBootstrap(
                    accounts,
                    0,
                    {
                        "balance": (ValueStateDescriptor("balance"), value),
                        "history": (ListStateDescriptor("history"), 1),
                    },
                    event_timers=lambda row: 5_000 if row[1] == 3 else None,
                ),
                name="The accounts",
            )
            .with_operator(
                "rules",
                ListBootstrap({"seen": (ListStateDescriptor("seen"), ["x", "y"])}),
                BroadcastBootstrap({"limits": (MapStateDescriptor("limits"), {"low": 1, "high": 9})}),
            )
            .write(str(tmp_path / name))
        )

    return write


def words(line):
    return line.split()


def test_ls_lists_operators_and_states(state, save):
    path = save()
    result = state("ls", path)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == f"savepoint {path}"
    (balance,) = [words(line) for line in lines if "balance" in line]
    assert balance[:3] == ["accounts", "The", "accounts"]
    assert balance[4:12] == ["1", "of", "64", "balance", "value", "state", "33", "33"]
    assert ["limits", "broadcast", "state", "-", "2"] in [
        words(line)[-7:-2] for line in lines if "limits" in line
    ]
    assert ["timers", "timers", "-", "1"] in [words(line) for line in lines]


def test_ls_as_json_says_all(state, save):
    document = json.loads(state("ls", save(), "--json").output)
    assert (document["kind"], document["checkpoint_id"], document["files"]) == ("savepoint", 1, 1)
    accounts, rules = document["operators"]
    assert (accounts["uid"], accounts["max_parallelism"], accounts["timers"]) == ("accounts", 64, 1)
    assert {each["name"]: (each["kind"], each["keys"], each["entries"]) for each in accounts["states"]} == {
        "balance": ("value state", 33, 33),
        "history": ("list state", 33, 33),
    }
    assert {each["name"]: (each["kind"], each["keys"]) for each in rules["states"]} == {
        "limits": ("broadcast state", None),
        "seen": ("list state", None),
    }


def entries(result, name):
    (section,) = [each for each in json.loads(result.output)["states"] if each["name"] == name]
    return section["entries"], section["more"]


def test_show_gives_every_kind_of_state(state, save):
    path = save()
    shown, more = entries(state("show", path, "accounts", "--json"), "balance")
    assert {(str(each["key"]), each["value"]) for each in shown} == {
        (str(list(key) if isinstance(key, tuple) else key), balance) for key, balance in ACCOUNTS
    }
    assert more == 0
    timers, _ = entries(state("show", path, "accounts", "--json"), "timers")
    assert timers == [{"key": "k3", "namespace": None, "timestamp_ms": 5_000, "time": "event"}]
    limits, _ = entries(state("show", path, "rules", "--json"), "limits")
    assert limits == [{"subtask": 0, "key": key, "value": n} for key, n in (("low", 1), ("high", 9))]
    seen, _ = entries(state("show", path, "rules", "seen", "--json"), "seen")
    assert [each["value"] for each in seen] == ["x", "y"]


def test_show_prints_tables_and_says_what_it_left_out(state, save):
    result = state("show", save(), "accounts", "balance", "--limit", 5)
    lines = result.output.splitlines()
    assert lines[0].startswith('operator "The accounts", uid accounts, id ')
    assert "balance (value state)" in lines
    assert len([line for line in lines if line.startswith("'k")]) <= 5
    assert "... and 28 more; --limit shows them" in lines


@pytest.mark.parametrize(
    ("key", "balances"), [("k3", {3}), ("7", {70, 77}), ("'7'", {77}), ("('a', 1)", {11}), ("nobody", set())]
)
def test_show_finds_a_key_by_how_it_is_written(state, save, key, balances):
    shown, _ = entries(state("show", save(), "accounts", "balance", "--key", key, "--json"), "balance")
    assert {each["value"] for each in shown} == balances


def test_values_become_json_by_their_fields(state, save):
    values = {
        "k0": Account(5, Mood.GOOD),
        "k1": Row(a=1, b=TimeWindow(0, 5)),
        "k2": {1: {2}, "x": 1.5},
        "k3": float("nan"),
    }
    path = save(accounts=[(key, 1) for key in values], value=lambda row: values[row[0]])
    shown, _ = entries(state("show", path, "accounts", "balance", "--json"), "balance")
    assert {each["key"]: each["value"] for each in shown} == {
        "k0": {"balance": 5, "mood": "GOOD"},
        "k1": {"a": 1, "b": "TimeWindow(start=0, end=5)"},
        "k2": [[1, "{2}"], ["x", 1.5]],
        "k3": "nan",
    }


def test_markup_in_values_is_printed_as_it_is(state, save):
    path = save(accounts=[("[bold]k", 1)], value=lambda row: "[red]no[/red]")
    assert "'[bold]k'   -           '[red]no[/red]'" in state("show", path, "accounts", "balance").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("nobody",),
            'has no operator with uid "nobody"\nDetail: Operators with a uid: "accounts", "rules".',
        ),
        (("accounts", "debt"), 'has no state "debt"'),
    ],
)
def test_what_is_not_there_is_an_error_that_lists_what_is(state, save, arguments, said):
    result = state("show", save(), *arguments)
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_place_without_a_checkpoint_is_an_error(state, tmp_path):
    result = state("ls", tmp_path)
    assert result.exit_code == 1
    assert f'there is no checkpoint or savepoint at "{tmp_path}"' in result.stderr


def test_a_damaged_file_is_named(state, save):
    path = save()
    (name,) = os.listdir(f"{path}/files")
    with open(f"{path}/files/{name}", "r+b") as file:
        file.truncate(10)
    for command in (("ls", path), ("show", path, "accounts"), ("diff", path, path)):
        result = state(*command)
        assert result.exit_code == 1
        assert name in result.stderr


def test_diff_tells_added_removed_and_changed(state, save):
    changed = [(key, balance + (key == "k3")) for key, balance in ACCOUNTS if key != "k4"] + [("new", 1)]
    one, two = save("one"), save("two", changed)
    result = state("diff", one, two, "accounts")
    lines = result.output.splitlines()
    assert "accounts: balance: 1 added, 1 removed, 1 changed" in lines
    assert ["~", "'k3'", "-", "3", "4"] in map(words, lines)
    assert ["+", "'new'", "-", "1"] in map(words, lines)
    assert ["-", "'k4'", "-", "4"] in map(words, lines)
    document = json.loads(state("diff", one, two, "--json", "--limit", 1).output)
    counts = {(each["operator"], each["state"]): each for each in document["counts"]}
    assert counts["accounts", "balance"]["changed"] == 1
    assert len([each for each in document["changes"] if each["state"] == "balance"]) == 1
    assert state("diff", one, one).output == "no differences\n"


PROGRAM = """
    import os
    from dataclasses import dataclass
    from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from millstream.datastream.state import ValueStateDescriptor
    from helpers_of_job import Place

    @dataclass
    class Total:
        number: int
        place: Place

    class Sum(KeyedProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total"))

        def process_element(self, value, ctx):
            if value == int(os.environ.get("FAIL_AT", "-1")):
                raise ValueError(value)
            before = self.total.value()
            self.total.update(Total(value + (before.number if before else 0), Place("here")))

    def main():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection(range(40)).key_by(lambda n: n % 2).process(Sum()).uid("sum").print()
        env.execute()

    if __name__ == "__main__":
        main()
"""


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    """A job's directory of checkpoints, and its program."""
    program = tmp_path / "program" / "job.py"
    program.parent.mkdir()
    program.write_text(textwrap.dedent(PROGRAM))
    (program.parent / "helpers_of_job.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass Place:\n    name: str\n"
    )
    monkeypatch.setenv("FAIL_AT", "33")
    monkeypatch.setenv("MILLSTREAM_CONFIG", "")
    options = {
        "execution.runtime-mode": "STREAMING",
        "millstream.epoch.fixed-records": "10",
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.num-retained": "2",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "none",
    }
    definitions = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
    result = CliRunner().invoke(main, ["run", "--target", "local", "-p", "1", *definitions, str(program)])
    assert "ValueError: 33" in result.stderr
    (job,) = os.listdir(tmp_path / "checkpoints")
    return tmp_path / "checkpoints" / job, program


def test_ls_of_a_jobs_directory_lists_its_checkpoints(state, checkpoints):
    directory, _ = checkpoints
    (directory / "chk-99").mkdir()
    result = state("ls", directory)
    names = [words(line)[0] for line in result.output.splitlines() if line.startswith("chk-")]
    assert names[0] == "chk-99"
    assert "it was never completed" in result.output
    assert len(names) == 3
    assert f"checkpoint {directory}/{names[1]}" in result.output.splitlines()


def test_classes_of_the_program_are_found_with_its_path(state, checkpoints, monkeypatch):
    import sys

    directory, program = checkpoints
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("helpers_of_job", None)
    without = state("show", directory, "sum", "total")
    assert "<__main__.Total, " in without.output
    result = state("show", directory, "sum", "total", "--job", program)
    assert "Total(number=210, place=Place(name='here'))" in result.output  # 0 + 2 + ... + 28
    sys.modules.pop("helpers_of_job", None)
