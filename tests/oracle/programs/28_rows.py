"""Rows with names, nested, with lists, maps and nulls: how they print and what functions see."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

ADDRESS = Types.ROW_NAMED(["street", "number"], [Types.STRING(), Types.INT()])
PERSON = Types.ROW_NAMED(
    ["name", "age", "address", "tags", "scores", "numbers"],
    [
        Types.STRING(),
        Types.INT(),
        ADDRESS,
        Types.LIST(Types.STRING()),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.PRIMITIVE_ARRAY(Types.INT()),
    ],
)
PEOPLE = [
    Row("ann", 41, Row("main st", 1), ["x", "y"], {"go": 1}, [1, 2]),
    Row("bob", None, Row(None, 7), [], {}, []),
    Row(None, 3, Row("élan", None), ["z"], {"chess": -4}, [-1]),
]


def name_and_street(person):
    return Row(person.name, person["address"]["street"] if person.name else None, person[1])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
people = env.from_collection(PEOPLE, PERSON)
people.map(lambda p: p.address, ADDRESS).print("address")
people.map(name_and_street, Types.ROW([Types.STRING(), Types.STRING(), Types.INT()])).print("row")
people.map(lambda p: p.tags, Types.LIST(Types.STRING())).print("list")
people.map(lambda p: p.scores, Types.MAP(Types.STRING(), Types.INT())).print("map")
people.map(
    lambda p: Row(p.name, p.tags, p.scores),
    Types.ROW([Types.STRING(), Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.INT())]),
).print("both")
people.map(lambda p: sorted(p.as_dict()), Types.LIST(Types.STRING())).print("fields")
people.map(lambda p: Row(first=p.name, second=p.age)).print("undeclared")
env.execute()
