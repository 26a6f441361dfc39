"""Running PyFlink's programs: `python -m millstream.compat job.py`, or `install()` in a program of your own."""

from millstream.base.pyflink_names import (
    PyFlinkFinder,
    PyFlinkModuleNotFoundError,
    install,
    is_installed,
    uninstall,
)

__all__ = ["PyFlinkFinder", "PyFlinkModuleNotFoundError", "install", "is_installed", "uninstall"]
