import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.functions.TimedOutPartialMatchHandler;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;
import org.apache.flink.util.Collector;

/** Runs patterns (see tests/property/pattern_oracle.py) in Flink; prints a line for each match. */
public class FlinkPatterns {
    /** Whether an event, "letter value time place", fits. */
    static class Fits extends IterativeCondition<String> {
        final String letters;
        final String above;

        Fits(String letters, String above) {
            this.letters = letters;
            this.above = above;
        }

        @Override
        public boolean filter(String event, Context<String> context) throws Exception {
            if (letters.indexOf(event.charAt(0)) < 0) {
                return false;
            }
            if (above == null) {
                return true;
            }
            String last = null;
            for (String before : context.getEventsForPattern(above)) {
                last = before;
            }
            return last == null || value(event) > value(last);
        }

        static int value(String event) {
            return Integer.parseInt(event.split(" ")[1]);
        }
    }

    static class Found extends PatternProcessFunction<String, String>
            implements TimedOutPartialMatchHandler<String> {
        final int number;

        Found(int number) {
            this.number = number;
        }

        @Override
        public void processMatch(Map<String, List<String>> match, Context context, Collector<String> out) {
            out.collect(line("match", match, context));
        }

        @Override
        public void processTimedOutMatch(Map<String, List<String>> match, Context context) {
            context.output(PARTIAL, line("partial", match, context));
        }

        String line(String kind, Map<String, List<String>> match, Context context) {
            StringBuilder text = new StringBuilder(number + " " + kind + " " + context.timestamp());
            match.forEach((name, events) -> {
                for (String event : events) {
                    text.append(" ").append(name).append(":").append(event.split(" ")[3]);
                }
            });
            return text.toString();
        }
    }

    static final org.apache.flink.util.OutputTag<String> PARTIAL =
            new org.apache.flink.util.OutputTag<>("partial", Types.STRING);

    public static void main(String[] arguments) throws Exception {
        JsonNode cases = new ObjectMapper().readTree(Files.readString(Path.of(arguments[0])));
        StreamExecutionEnvironment env = null;
        List<DataStream<String>> found = new ArrayList<>();
        for (int number = 0; number < cases.size(); number++) {
            if (env == null) {
                env = StreamExecutionEnvironment.createLocalEnvironment(1);
            }
            JsonNode each = cases.get(number);
            List<String> events = new ArrayList<>();
            for (JsonNode event : each.get("events")) {
                events.add(event.get(0).asText() + " " + event.get(1).asInt() + " " + event.get(2).asLong()
                        + " " + events.size());
            }
            DataStream<String> stream = env.fromData(events, Types.STRING).assignTimestampsAndWatermarks(
                    WatermarkStrategy.<String>forMonotonousTimestamps()
                            .withTimestampAssigner((event, before) -> Long.parseLong(event.split(" ")[2])));
            var matches = CEP.pattern(stream.keyBy(event -> 0), pattern(each.get("pattern")))
                    .process(new Found(number), Types.STRING);
            found.add(matches);
            found.add(matches.getSideOutput(PARTIAL));
            if (found.size() >= 40 || number == cases.size() - 1) {
                DataStream<String> all = found.get(0).union(found.subList(1, found.size()).toArray(DataStream[]::new));
                try (CloseableIterator<String> lines = all.executeAndCollect()) {
                    lines.forEachRemaining(System.out::println);
                }
                found.clear();
                env = null;
            }
        }
    }

    static Pattern<String, String> pattern(JsonNode described) {
        String kind = described.get("skip").get(0).asText();
        String name = described.get("skip").get(1).asText();
        AfterMatchSkipStrategy skip = switch (kind) {
            case "skip_to_next" -> AfterMatchSkipStrategy.skipToNext();
            case "skip_past_last_event" -> AfterMatchSkipStrategy.skipPastLastEvent();
            case "skip_to_first" -> AfterMatchSkipStrategy.skipToFirst(name);
            case "skip_to_last" -> AfterMatchSkipStrategy.skipToLast(name);
            default -> AfterMatchSkipStrategy.noSkip();
        };
        Pattern<String, String> built = steps(described.get("steps"), skip);
        return described.get("within").isNull()
                ? built
                : built.within(Duration.ofMillis(described.get("within").asLong()));
    }

    static Pattern<String, String> steps(JsonNode steps, AfterMatchSkipStrategy skip) {
        Pattern<String, String> built = null;
        for (JsonNode step : steps) {
            String name = step.get("name").asText();
            if (step.get("kind").asText().equals("group")) {
                Pattern<String, String> group = steps(step.get("steps"), AfterMatchSkipStrategy.noSkip());
                if (built == null) {
                    built = Pattern.begin(group, skip);
                } else {
                    built = switch (step.get("how").asText()) {
                        case "next" -> built.next(group);
                        case "followed_by" -> built.followedBy(group);
                        default -> built.followedByAny(group);
                    };
                }
            } else {
                if (built == null) {
                    built = Pattern.begin(name, skip);
                } else {
                    built = switch (step.get("how").asText()) {
                        case "next" -> built.next(name);
                        case "followed_by" -> built.followedBy(name);
                        case "followed_by_any" -> built.followedByAny(name);
                        case "not_next" -> built.notNext(name);
                        default -> built.notFollowedBy(name);
                    };
                }
                String above = step.get("above").isNull() ? null : step.get("above").asText();
                built = built.where(new Fits(step.get("letters").asText(), above));
            }
            if (!step.get("kind").asText().equals("not")) {
                quantify(built, step);
            }
        }
        return built;
    }

    static void quantify(Pattern<String, String> built, JsonNode step) {
        int least = step.get("least").asInt();
        if (step.get("most").isNull()) {
            if (least == 1) {
                built.oneOrMore();
            } else {
                built.timesOrMore(least);
            }
        } else if (step.get("most").asInt() > least) {
            built.times(least, step.get("most").asInt());
        } else if (least > 1) {
            built.times(least);
        }
        switch (step.get("inner").asText()) {
            case "next" -> built.consecutive();
            case "followed_by_any" -> built.allowCombinations();
            default -> { }
        }
        if (!step.get("until").isNull()) {
            built.until(new Fits(step.get("until").asText(), null));
        }
        if (step.get("optional").asBoolean()) {
            built.optional();
        }
        if (step.get("greedy").asBoolean()) {
            built.greedy();
        }
    }
}
