"""Count words: the program that every streaming book begins with.

millstream run --target local examples/word_count.py
"""

from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

VERSES = [
    "to be or not to be that is the question",
    "whether tis nobler in the mind to suffer",
    "the slings and arrows of outrageous fortune",
]


def main() -> None:
    """Print each word with how often it comes, once: the input has an end."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    (
        env.from_collection(VERSES)
        .flat_map(str.split)
        .map(lambda word: (word, 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .filter(lambda pair: pair[1] > 1)
        .map(lambda pair: f"{pair[0]}: {pair[1]}")
        .print()
    )
    env.execute("word count")


if __name__ == "__main__":
    main()
