import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/** The patterns of benchmarks/cep.py in Flink: prints matches, a checksum and seconds of each. */
public class FlinkCepSpeed {
    static SimpleCondition<Tuple3<Integer, Integer, Long>> letter(int wanted) {
        return SimpleCondition.of(event -> event.f1 == wanted);
    }

    static Pattern<Tuple3<Integer, Integer, Long>, ?> pattern(String name) {
        AfterMatchSkipStrategy past = AfterMatchSkipStrategy.skipPastLastEvent();
        Pattern<Tuple3<Integer, Integer, Long>, Tuple3<Integer, Integer, Long>> begin =
                Pattern.begin("a", name.equals("steps") ? past : AfterMatchSkipStrategy.noSkip());
        Pattern<Tuple3<Integer, Integer, Long>, ?> first = begin.where(letter(0));
        return switch (name) {
            case "steps" -> begin.followedBy("b").where(letter(1)).followedBy("c").where(letter(2))
                    .within(Duration.ofMillis(20_000));
            case "loop" -> begin.followedBy("b").where(letter(1)).oneOrMore().followedBy("c").where(letter(2))
                    .within(Duration.ofMillis(10_000));
            default -> begin.notFollowedBy("b").where(letter(1)).followedBy("c").where(letter(2))
                    .within(Duration.ofMillis(20_000));
        };
    }

    public static void main(String[] arguments) throws Exception {
        long count = Long.parseLong(arguments[0]);
        for (String name : List.of("steps", "loop", "absent")) {
            StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1);
            env.getConfig().enableObjectReuse();
            var events = env.fromSequence(0, count - 1).map(number -> {
                long hash = (number * 2654435761L) & 0xFFFFFFFFL;
                return Tuple3.of((int) ((hash >> 18) % 1000), (int) ((hash >> 13) % 8), number);
            }).returns(Types.TUPLE(Types.INT, Types.INT, Types.LONG)).assignTimestampsAndWatermarks(
                    WatermarkStrategy.<Tuple3<Integer, Integer, Long>>forMonotonousTimestamps()
                            .withTimestampAssigner((event, before) -> event.f2));
            var found = CEP.pattern(events.keyBy(event -> event.f0), pattern(name)).select(
                    (Map<String, List<Tuple3<Integer, Integer, Long>>> match) ->
                            match.get("a").get(0).f2 * 31 + match.get("c").get(0).f2, Types.LONG);
            long began = System.nanoTime();
            long matches = 0;
            long sum = 0;
            try (CloseableIterator<Long> results = found.executeAndCollect()) {
                while (results.hasNext()) {
                    matches++;
                    sum += results.next();
                }
            }
            System.out.println(name + " " + matches + " " + sum + " " + (System.nanoTime() - began) / 1e9);
        }
    }
}
