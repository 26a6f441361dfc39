"""Parse JSON; what does not parse goes to a side output with the reason, and nothing is lost.

millstream run --target local examples/dead_letters.py
"""

import json

from millstream.common import Types
from millstream.datastream import OutputTag, StreamExecutionEnvironment
from millstream.datastream.functions import ProcessFunction

LINES = ['{"user": "ada", "euros": 3}', "not json", '{"user": "bob"}', '{"user": "ada", "euros": 4}']
DEAD = OutputTag("dead", Types.STRING())


class Parse(ProcessFunction):
    """Makes (user, euros) of a line."""

    def process_element(self, value, ctx):
        """Parse, or tell why not."""
        try:
            order = json.loads(value)
            yield order["user"], order["euros"]
        except ValueError as error:
            yield DEAD, f"{value!r}: {type(error).__name__}"
        except KeyError as error:
            yield DEAD, f"{value!r}: no {error}"


def main() -> None:
    """Print both outputs."""
    env = StreamExecutionEnvironment.get_execution_environment()
    orders = env.from_collection(LINES).process(Parse())
    orders.map(lambda order: f"{order[0]} pays {order[1]}").print()
    orders.get_side_output(DEAD).map(lambda line: f"dead letter {line}").print()
    env.execute("dead letters")


if __name__ == "__main__":
    main()
