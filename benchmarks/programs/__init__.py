"""The programs of the benchmarks, each written once for PyFlink and millstream."""
