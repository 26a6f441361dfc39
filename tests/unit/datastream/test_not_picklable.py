"""What cannot be pickled is told with the operator that made it, wherever it was going."""

import threading

import pytest

from millstream.base.errors import JobExecutionError, NotSerializableError
from millstream.operators.base import OperatorReport
from millstream.runtime.protocol.report import SlotReport
from millstream.runtime.slot.core import pickle_report


def test_a_record_at_an_exchange_names_sender_receiver_and_record(new_environment):
    environment = new_environment(parallelism=2)
    stream = environment.from_collection([1, 2, 3, 4]).map(lambda x: (x, threading.Lock())).name("locks")
    stream.key_by(lambda record: record[0]).map(lambda record: record[0]).name("firsts").print()
    with pytest.raises(JobExecutionError) as raised:
        environment.execute()
    error = raised.value.__cause__
    assert isinstance(error, NotSerializableError)
    assert error.operator == "locks"
    assert 'from operator "locks" to operator "firsts"' in error.detail
    assert "<unlocked _thread.lock" in error.message


class Refuses:
    def __reduce__(self):
        raise ValueError("not to be pickled")


def test_a_class_that_refuses_in_its_own_way_names_the_sender_too(new_environment):
    environment = new_environment(parallelism=2)
    environment.from_collection([1, 2, 3, 4]).map(lambda x: Refuses()).name("refuses").rebalance().print()
    with pytest.raises(JobExecutionError) as raised:
        environment.execute()
    assert raised.value.__cause__.operator == "refuses"
    assert "not to be pickled" in str(raised.value.__cause__)


@pytest.mark.parametrize("field", ["collected", "committables"])
def test_what_a_report_carries_names_its_operator(field):
    good, culprit = OperatorReport(**{field: [1]}), OperatorReport(**{field: [2, threading.Lock()]})
    report = SlotReport(slot=1, epoch=1, operators=[(7, good), (8, culprit)])
    with pytest.raises(NotSerializableError) as raised:
        pickle_report(report, {7: "good", 8: "culprit"}.__getitem__)
    assert (raised.value.operator, raised.value.subtask) == ("culprit", 1)
    assert "lock" in raised.value.message
