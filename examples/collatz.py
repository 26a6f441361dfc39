"""Numbers go round until they come to 1: an iteration.

millstream run --target local examples/collatz.py
"""

from millstream.datastream import StreamExecutionEnvironment


def step(state: tuple[int, int, int]) -> tuple[int, int, int]:
    """Make one step; a state is (first number, number, steps)."""
    first, number, steps = state
    return first, number // 2 if number % 2 == 0 else 3 * number + 1, steps + 1


def main() -> None:
    """Print how many steps each number takes."""
    env = StreamExecutionEnvironment.get_execution_environment()
    start = env.from_collection([(number, number, 0) for number in (6, 7, 9, 27)])
    loop = start.iterate()
    stepped = loop.map(step)
    loop.close_with(stepped.filter(lambda state: state[1] != 1))
    stepped.filter(lambda state: state[1] == 1).map(
        lambda state: f"{state[0]} takes {state[2]} steps"
    ).print()
    env.execute("collatz")


if __name__ == "__main__":
    main()
