"""Whole columns in place of functions of records: sums, counts and medians by expression.

millstream run --target local examples/sales_in_columns.py
"""

from millstream.common import Row
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from millstream.datastream.expressions import count, max_, median, sum_

SALES = [Row(shop=("north", "south")[n % 2], euros=float(n % 17), items=n % 3 + 1) for n in range(1000)]


def main() -> None:
    """Print one line for each shop."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    (
        env.from_collection(SALES)
        .key_by("shop")
        .aggregate(n=count(), euros=sum_("euros"), most=max_("items"), middle=median("euros"))
        .map(lambda row: f"{row.shop}: {row.n} sales, {row.euros} euros, at most {row.most} items")
        .print()
    )
    env.execute("sales in columns")


if __name__ == "__main__":
    main()
