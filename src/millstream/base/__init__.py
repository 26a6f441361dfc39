"""What every room may use: errors, ids, time, clocks, signals. Imports nothing else of millstream."""
