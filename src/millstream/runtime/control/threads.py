"""What the threads of this process do."""

from __future__ import annotations

import os
import sys
import threading
import traceback

from millstream.runtime.control.views import ThreadsView, ThreadView

__all__ = ["describe_threads"]


def describe_threads() -> ThreadsView:
    """Return the stacks of all threads of this process, the innermost call last."""
    names = {each.ident: each.name for each in threading.enumerate()}
    return ThreadsView(
        os.getpid(),
        tuple(
            ThreadView(names.get(ident, f"thread {ident}"), ident, "".join(traceback.format_stack(frame)))
            for ident, frame in sys._current_frames().items()
        ),
    )
