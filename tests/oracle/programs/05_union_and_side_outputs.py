"""A process function with two side outputs, one of which is united with the main one; a stream twice in a union."""

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

ODD = OutputTag("odd", Types.STRING())
THIRDS = OutputTag("thirds", Types.TUPLE([Types.INT(), Types.INT()]))


class Sort(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, f"odd {value}"
        else:
            yield value
        if value % 3 == 0:
            yield THIRDS, (value, value // 3)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
main = env.from_collection(list(range(12)), Types.INT()).process(Sort(), Types.INT())
odd, thirds = main.get_side_output(ODD), main.get_side_output(THIRDS)
main.print("even")
thirds.print("thirds")
main.map(lambda value: f"even {value}", Types.STRING()).union(odd, odd).print()
env.execute()
