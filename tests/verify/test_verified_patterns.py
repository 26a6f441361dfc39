"""`millstream verify` finds nothing wrong with the worked examples of docs/cep-examples.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "cep-examples.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)

PROGRAM = """
from types import SimpleNamespace

from millstream.common import Duration, Time, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import OutputTag, StreamExecutionEnvironment


class ByTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


environment = StreamExecutionEnvironment.get_execution_environment()
records = [SimpleNamespace(**each) for each in {records}]
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(ByTime())
{stream} = environment.from_collection(records).assign_timestamps_and_watermarks(strategy)
{block}
environment.execute("patterns")
"""


def rows(count, make):
    return [{"time": number * 1_000, **make(number)} for number in range(count)]


STREAMS = [
    ("payments", rows(90, lambda n: {"card": n % 4, "amount": (1, 1, 1, 1, 40, 1, 1, 900)[n // 4 % 8]})),
    ("readings", rows(90, lambda n: {"sensor": n % 3, "value": (n * 7 // 3) % 40})),
    ("clicks", rows(60, lambda n: {"user": n % 3, "item": n, "action": "pay" if n % 5 == 0 else "cart"})),
    ("logins", rows(90, lambda n: {"user": n % 3, "success": n % 13 == 0})),
    ("prices", rows(90, lambda n: {"share": n % 2, "value": 100 + (n * 37) % 23})),
]


@pytest.mark.parametrize("number", range(len(STREAMS)))
def test_verify_finds_nothing_wrong_with_an_example(number, tmp_path):
    stream, records = STREAMS[number]
    text = PROGRAM.format(stream=stream, records=records, block=BLOCKS[number])
    assert len(BLOCKS) == len(STREAMS)
    script = tmp_path / "job.py"
    script.write_text(text)
    arguments = [
        "verify",
        "--seeds",
        "4",
        "--no-progress",
        "--vary",
        "epochs,parallelism,faults",
        str(script),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "4 seeds, 0 failed" in result.output
