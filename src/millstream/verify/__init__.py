"""Runs a bounded job again and again under a deterministic simulation and compares what it gives (`millstream verify`).

::

    program ─► VerifyingLauncher ─► Verifier ─► undisturbed run: what is right
                                        │
                  seed ─► Scenario ─► simulate(): World (crash hook, clock, ids, randomness)
                                        │            DefaultLauncher with SimulatedExecutor
                                        ▼
                                     Outcome ─► compare ─► Summary

Nothing in here makes decisions of the engine: the same job master, coordinator, slots and committers run as in
production; only time, ids, storage and the slots' surroundings are simulated.
"""
