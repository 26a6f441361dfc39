"""What pickles have of functions."""

import pickle

from millstream.base.pickling import dump_by_value


def test_functions_keep_the_name_of_their_file():
    """Messages, tracebacks and the loops that are made of functions go by it."""

    def outer():
        return lambda: 1

    copy = pickle.loads(dump_by_value(outer))
    assert copy.__code__.co_filename == copy().__code__.co_filename == __file__
