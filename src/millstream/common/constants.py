"""Constants under PyFlink's names (`pyflink.common.constants`)."""

from __future__ import annotations

from typing import Final

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP

__all__ = ["DEFAULT_OUTPUT_TAG", "MAX_LONG_VALUE", "MIN_LONG_VALUE"]

MAX_LONG_VALUE: Final = MAX_TIMESTAMP
"""The watermark at the end of a bounded input."""
MIN_LONG_VALUE: Final = MIN_TIMESTAMP
"""The watermark before the first one."""
DEFAULT_OUTPUT_TAG: Final = ""
"""The main output, where side outputs have their id."""
