"""For tests of programs and connectors: an operator by hand, a cluster in this process, rules of the contracts.

`OperatorHarness` runs one operator with a clock that the test moves, `MiniCluster` whole programs, with failures where
the test wants them. `check_source` and `check_sink` hold connectors against the rules of `spi.source` and `spi.sink`.
"""
