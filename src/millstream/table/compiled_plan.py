"""Plans that are kept (PyFlink's `pyflink.table.compiled_plan`)."""

from millstream.table.plan.compiled import CompiledPlan

__all__ = ["CompiledPlan"]
