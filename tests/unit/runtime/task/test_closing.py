import signal

import pytest

from millstream.runtime.task.closing import call_all


def failing(error, seen):
    def action():
        seen.append(error)
        raise error

    return action


def test_every_action_has_its_turn_and_the_first_error_is_raised():
    seen = []
    first, second = KeyError("first"), ValueError("second")
    with pytest.raises(KeyError) as failure:
        call_all([failing(first, seen), lambda: seen.append("well"), failing(second, seen)])
    assert failure.value is first
    assert seen == [first, "well", second]


def spark_s_handler(number, frame):
    raise KeyboardInterrupt


spark_s_handler.__module__ = "pyspark.core.context"


@pytest.mark.parametrize("handler", [signal.default_int_handler, spark_s_handler])
def test_nothing_goes_on_after_an_interrupt(handler):
    seen = []
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            call_all([failing(KeyboardInterrupt(), seen), lambda: seen.append("after")])
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(seen) == 1


def test_nothing_is_raised_if_all_went_well():
    seen = []
    call_all(lambda number=number: seen.append(number) for number in range(3))
    assert seen == [0, 1, 2]
