"""What `compare.py` measures: the workloads of each suite, their floors, and the sizes of their jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

VARIANTS = {  # of PyFlink; the first is what the floors are about
    "default": {},
    "thread": {"python.execution-mode": "thread"},
    "bundles": {"python.fn-execution.bundle.size": "100000"},
}


@dataclass(frozen=True)
class Ratio:
    """What millstream must reach and wants to reach, as multiples of PyFlink's rate.

    Attributes:
        title: What the workload is, for the tables.
        floor: What must be reached; None if the ratio is for information only.
        aim: What is wanted.
        peer: The workload that does the same in PyFlink, where PyFlink lacks the operator.
    """

    title: str
    floor: float | None = None
    aim: float | None = None
    peer: str | None = None


@dataclass(frozen=True)
class Ideal:
    """A workload that waits: its rate if nothing but the waiting took time, and how far it may stay behind."""

    title: str
    rate: float
    limit: float


Sizes = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Suite:
    """Workloads that are measured together and reported on one page.

    Attributes:
        heading: Of the page.
        result_file: In `benchmarks/results`.
        ratios: By workload.
        sizes: By system, PyFlink's variant, and workload: the two sizes whose difference gives the rate;
            programs that tell how long they worked run the second only.
        ideals: By workload.
        common: The size of every system's first job, whose results are compared; by workload.
        with_core: Whether the loop and the latency test belong to it.
        notes: Paragraphs for the page.
    """

    heading: str
    result_file: str
    ratios: dict[str, Ratio]
    sizes: dict[str, dict[str, Sizes]]
    ideals: dict[str, Ideal] = field(default_factory=dict)
    common: dict[str, int] = field(default_factory=dict)
    with_core: bool = False
    notes: tuple[str, ...] = ()

    def workloads(self) -> list[str]:
        """Return what `--only` may name."""
        return [*self.ratios, *self.ideals, *(["latency"] if self.with_core else [])]

    def has(self, system: str, variant: str, workload: str) -> bool:
        return workload in self.sizes.get(system, {}).get(variant, {})

    def peer(self, workload: str) -> str:
        """Return the workload that PyFlink runs for this one."""
        ratio = self.ratios.get(workload)
        return (ratio and ratio.peer) or workload


COMMON_SIZE = 20_000
QUICK_COMMON_SIZE = 2_000

# The two sizes are some ten seconds apart at the rates of a small machine, or more for PyFlink.
CORE = Suite(
    heading="millstream against PyFlink",
    result_file="compare.md",
    with_core=True,
    ratios={
        "chain": Ratio("map, filter, map over numbers", 20, 50),
        "keyed": Ratio("keyed process with ValueState", 40, 100),
        "window": Ratio("event-time tumbling window, aggregate", 100, 300),
        "flights": Ratio("the flights job, functions", 30),
    },
    sizes={
        "pyflink": {
            "default": {
                "chain": (200_000, 1_600_000),
                "keyed": (20_000, 80_000),
                "window": (20_000, 60_000),
                "flights": (2_000, 40_000),
            },
            "thread": {
                "chain": (200_000, 1_400_000),
                "keyed": (20_000, 120_000),
                "window": (20_000, 120_000),
            },
            "bundles": {"chain": (200_000, 800_000), "keyed": (100_000, 400_000), "window": (20_000, 60_000)},
        },
        "millstream": {
            "default": {
                "chain": (4_000_000, 24_000_000),
                "keyed": (2_000_000, 14_000_000),
                "window": (1_000_000, 5_000_000),
                "flights": (2_000, 1_200_000),
            },
        },
        "loop": {"default": {"keyed": (500_000, 3_000_000)}},
    },
)

DATASTREAM = Suite(
    heading="Windows, joins, state and async calls against PyFlink",
    result_file="datastream.md",
    ratios={
        "sliding": Ratio("sliding window, 60 s by 1 s", 150),
        "session": Ratio("session window", 100),
        "interval": Ratio("interval join (PyFlink: by hand)", 30, peer="interval_by_hand"),
        "connected": Ratio("connected keyed process", 40),
        "broadcast": Ratio("keyed process with broadcast state", 40),
        "count": Ratio("count window of 20"),
        "processing_time": Ratio("processing-time tumbling window"),
        "window_join": Ratio("window join (PyFlink: by hand)", peer="window_join_by_hand"),
        "interval_by_hand": Ratio("interval join by hand on both"),
        "window_join_by_hand": Ratio("window join by hand on both"),
    },
    ideals={
        "async": Ideal("200 at a time in one subtask", 4_000, 1.3),
        "async_two": Ideal("100 at a time in each of two", 4_000, 1.3),
    },
    common={"sliding": 200, "async": 1_000, "async_two": 1_000},
    sizes={
        "pyflink": {
            "default": {
                "sliding": (400, 1_400),
                "session": (20_000, 60_000),
                "connected": (20_000, 200_000),
                "broadcast": (20_000, 240_000),
                "count": (20_000, 80_000),
                "processing_time": (20_000, 100_000),
                "interval_by_hand": (20_000, 60_000),
                "window_join_by_hand": (20_000, 100_000),
                "async": (2_000, 40_000),
                "async_two": (2_000, 40_000),
            },
        },
        "millstream": {
            "default": {
                "sliding": (1_000_000, 5_000_000),
                "session": (1_000_000, 5_000_000),
                "interval": (1_000_000, 5_000_000),
                "connected": (2_000_000, 12_000_000),
                "broadcast": (2_000_000, 12_000_000),
                "count": (1_000_000, 9_000_000),
                "processing_time": (1_000_000, 9_000_000),
                "window_join": (1_000_000, 5_000_000),
                "interval_by_hand": (400_000, 2_400_000),
                "window_join_by_hand": (1_000_000, 5_000_000),
                "async": (2_000, 40_000),
                "async_two": (2_000, 40_000),
            },
        },
    },
    notes=(
        "PyFlink has no joins in its Python API: there a KeyedCoProcessFunction keeps both sides in MapStates, "
        "in lists of 150 ms (a record looks at three of them), and timers remove them; for the window join, "
        "both streams are tagged and united, and a ProcessWindowFunction pairs what a window holds. "
        "The last two rows of the table are those programs on both systems.\n",
        "PyFlink adds a record to each of the sixty sliding windows that hold it, millstream to one slice that "
        "they share; PyFlink's sliding jobs are a few hundred records, too few for a window to fire before the "
        "end of its job.\n",
    ),
)

SUITES = {"core": CORE, "datastream": DATASTREAM}
QUICK_DIVISOR = {"pyflink": 4, "millstream": 2, "loop": 2}
