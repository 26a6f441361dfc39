"""What stays of a job's checkpoints when it has ended, as Flink has it."""

from __future__ import annotations

import pytest
from recovery_programs import plain
from recovery_support import FAULTS, new_environment, running

from millstream.base.errors import JobExecutionError
from millstream.runtime.checkpoint.restore import find_saved

NOTHING, DELETE, RETAIN = "NO_EXTERNALIZED_CHECKPOINTS", "DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION"


def end(tmp_path, how, retention, **options):
    """Run a job that makes checkpoints until it finishes, fails or is cancelled; return what is left of them."""
    if retention is not None:
        options["execution_checkpointing_externalized__checkpoint__retention"] = retention
    environment = new_environment(
        execution_checkpointing_interval=1,
        execution_checkpointing_dir=str(tmp_path / "checkpoints"),
        restart__strategy_type="none",
        **options,
    )
    FAULTS.arm(*([40] if how == "fails" else []))
    with running() as launcher:
        if how == "is cancelled":

            def cancel():
                launcher.job().cancel()

            launcher.do_after(40, cancel)
        plain(environment).print()
        client = environment.execute_async()
        try:
            client.get_job_execution_result().result()
        except JobExecutionError:
            assert how != "finishes"
    return list((tmp_path / "checkpoints").glob("*/chk-*"))


@pytest.mark.parametrize(
    ("how", "retention", "stays"),
    [
        ("finishes", None, False),
        ("finishes", NOTHING, False),
        ("finishes", DELETE, False),
        ("finishes", RETAIN, False),
        ("is cancelled", None, False),
        ("is cancelled", NOTHING, False),
        ("is cancelled", DELETE, False),
        ("is cancelled", RETAIN, True),
        ("fails", None, False),
        ("fails", NOTHING, False),
        ("fails", DELETE, True),
        ("fails", RETAIN, True),
    ],
)
@pytest.mark.parametrize("recoverable", [False, True])
def test_checkpoints_of_an_ended_job(tmp_path, how, retention, stays, recoverable):
    options = {}
    if recoverable:
        options = {"pipeline_name": "ending", "high__availability_storageDir": str(tmp_path / "ha")}
    left = end(tmp_path, how, retention, **options)
    assert bool(left) is stays
    if stays:
        find_saved(str(left[0]))
    else:
        assert list((tmp_path / "checkpoints").glob("*")) == []
    assert not list(tmp_path.glob("ha/*.recovery"))
