import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.legacy.table.connector.source.SourceFunctionProvider;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction;
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.table.annotation.ArgumentHint;
import org.apache.flink.table.annotation.ArgumentTrait;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.StateHint;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.catalog.Column;
import org.apache.flink.table.catalog.ObjectIdentifier;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.legacy.SinkFunctionProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsSourceWatermark;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.functions.ChangelogFunction;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Runs process table functions, changelog functions and ON CONFLICT in Flink over changes and watermarks that come in a
 * given order; prints an answer for each case. The functions are those of tests/table/process/ptf_functions.py.
 */
public class FlinkProcess {
    static final ObjectMapper JSON = new ObjectMapper();

    // ------------------------------------------------------------------ functions

    public static class CountState {
        public int counter = 0;
        public String last = null;
    }

    public static class Greeting extends ProcessTableFunction<String> {
        public void eval(@ArgumentHint(ArgumentTrait.ROW_SEMANTIC_TABLE) Row input) {
            collect("Hello " + input.getField("name"));
        }
    }

    public static class Memory extends ProcessTableFunction<String> {
        public void eval(@StateHint CountState state, @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row input) {
            state.counter++;
            collect("Hello " + input.getField("name") + " " + state.counter + " after " + state.last);
            state.last = input.getField("name") + "/" + input.getField(1);
        }
    }

    public static class OptionalMemory extends ProcessTableFunction<String> {
        public void eval(
                @StateHint CountState state,
                @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.OPTIONAL_PARTITION_BY}) Row input) {
            state.counter++;
            collect(input.getField("name") + " " + state.counter);
        }
    }

    @DataTypeHint("ROW<what STRING, n BIGINT>")
    public static class RowState extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint(type = @DataTypeHint("ROW<`count` BIGINT, seen STRING>")) Row memory,
                @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row input,
                @ArgumentHint(name = "most") Integer most) {
            long n = memory.getField("count") == null ? 1 : (Long) memory.getField("count") + 1;
            memory.setField("count", n);
            memory.setField("seen", input.toString());
            collect(Row.of(memory.toString(), n));
            if (n == most) {
                ctx.clearAllState();
            }
        }
    }

    @DataTypeHint("ROW<l STRING, m STRING>")
    public static class Viewing extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint ListView<String> list,
                @StateHint MapView<String, Integer> map,
                @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row input)
                throws Exception {
            String v = String.valueOf(input.getField(1));
            if (v.equals("0")) {
                ctx.clearState("list");
            } else if (v.equals("9")) {
                ctx.clearState("map");
            } else {
                list.add(v);
                Integer before = map.get(v);
                map.put(v, before == null ? 1 : before + 1);
            }
            List<String> all = new ArrayList<>();
            list.get().forEach(all::add);
            Map<String, Integer> pairs = new TreeMap<>();
            for (Map.Entry<String, Integer> each : map.entries()) {
                pairs.put(each.getKey(), each.getValue());
            }
            collect(Row.of(all.toString(), pairs.toString()));
        }
    }

    public static class PassRow extends ProcessTableFunction<String> {
        public void eval(
                @ArgumentHint({ArgumentTrait.ROW_SEMANTIC_TABLE, ArgumentTrait.PASS_COLUMNS_THROUGH}) Row input,
                @ArgumentHint(name = "n") Integer n) {
            for (int i = 0; i < n; i++) {
                collect("copy " + i);
            }
        }
    }

    public static class PassSet extends ProcessTableFunction<String> {
        public void eval(
                @StateHint CountState s,
                @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.PASS_COLUMNS_THROUGH}) Row input) {
            s.counter++;
            collect("nr " + s.counter);
        }
    }

    @DataTypeHint("ROW<what STRING, t STRING, wm STRING, twm STRING>")
    public static class FollowUp extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint CountState state,
                @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.REQUIRE_ON_TIME}) Row input) {
            state.counter++;
            TimeContext<LocalDateTime> time = ctx.timeContext(LocalDateTime.class);
            TimeContext<Long> millis = ctx.timeContext(Long.class);
            collect(
                    Row.of(
                            "row " + state.counter,
                            String.valueOf(time.time()),
                            String.valueOf(millis.currentWatermark()),
                            String.valueOf(millis.tableWatermark())));
            time.registerOnTime(time.time().plusSeconds(10));
            time.registerOnTime("named", time.time().plusSeconds(5));
        }

        public void onTimer(OnTimerContext ctx, CountState state) {
            TimeContext<LocalDateTime> time = ctx.timeContext(LocalDateTime.class);
            collect(
                    Row.of(
                            "timer " + ctx.currentTimer() + " " + state.counter,
                            String.valueOf(time.time()),
                            String.valueOf(ctx.timeContext(Long.class).currentWatermark()),
                            "null"));
        }
    }

    @DataTypeHint("ROW<what STRING>")
    public static class TimerPlay extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint CountState state,
                @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.REQUIRE_ON_TIME}) Row input) {
            TimeContext<Long> t = ctx.timeContext(Long.class);
            int v = (Integer) input.getField("v");
            if (v == 1) {
                t.registerOnTime("b", 20000L);
                t.registerOnTime("a", 20000L);
                t.registerOnTime(20000L);
                t.registerOnTime(20000L);
                t.registerOnTime("z", 19000L);
            }
            if (v == 2) {
                t.clearTimer("b");
                t.registerOnTime("a", 21000L);
            }
            if (v == 3) {
                t.clearTimer(20000L);
            }
            if (v == 4) {
                ctx.clearAllTimers();
            }
            if (v == 5) {
                t.registerOnTime("late", 1L);
                t.registerOnTime(2L);
            }
            if (v == 6) {
                ctx.clearAll();
            }
            if (v == 7) {
                t.registerOnTime("again", 5000L);
            }
            state.counter++;
            collect(Row.of("row " + v + " " + state.counter));
        }

        public void onTimer(OnTimerContext ctx, CountState state) {
            TimeContext<Long> t = ctx.timeContext(Long.class);
            String name = ctx.currentTimer();
            collect(Row.of("timer " + name + "@" + t.time() + " " + state.counter));
            if ("again".equals(name) && t.time() < 9000) {
                t.registerOnTime("again", t.time() + 1000);
                t.registerOnTime("late", t.time() - 3000);
            }
            if ("late".equals(name)) {
                ctx.clearAllState();
            }
        }
    }

    /** Says what its rows and its table's changelog mode are. */
    @DataTypeHint("ROW<what STRING>")
    public abstract static class TellsKinds extends ProcessTableFunction<Row> {
        void give(Context ctx, Row input) {
            ChangelogMode mode = ctx.tableSemanticsFor("input").changelogMode().get();
            collect(Row.of(input + " " + new ArrayList<>(mode.getContainedKinds())));
        }
    }

    @DataTypeHint("ROW<what STRING>")
    public static class Kinds extends TellsKinds {
        public void eval(
                Context ctx,
                @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.SUPPORT_UPDATES}) Row input) {
            give(ctx, input);
        }
    }

    @DataTypeHint("ROW<what STRING>")
    public static class KindsBefore extends TellsKinds {
        public void eval(
                Context ctx,
                @ArgumentHint({
                            ArgumentTrait.SET_SEMANTIC_TABLE,
                            ArgumentTrait.SUPPORT_UPDATES,
                            ArgumentTrait.REQUIRE_UPDATE_BEFORE
                        })
                        Row input) {
            give(ctx, input);
        }
    }

    @DataTypeHint("ROW<what STRING>")
    public static class KindsFull extends TellsKinds {
        public void eval(
                Context ctx,
                @ArgumentHint({
                            ArgumentTrait.SET_SEMANTIC_TABLE,
                            ArgumentTrait.SUPPORT_UPDATES,
                            ArgumentTrait.REQUIRE_FULL_DELETE
                        })
                        Row input) {
            give(ctx, input);
        }
    }

    @DataTypeHint("ROW<what STRING>")
    public static class KindsRow extends TellsKinds {
        public void eval(
                Context ctx,
                @ArgumentHint({ArgumentTrait.ROW_SEMANTIC_TABLE, ArgumentTrait.SUPPORT_UPDATES}) Row input) {
            give(ctx, input);
        }
    }

    public static class Last {
        public Integer last = null;
    }

    @DataTypeHint("ROW<v INT>")
    public static class Retracting extends ProcessTableFunction<Row> implements ChangelogFunction {
        @Override
        public ChangelogMode getChangelogMode(ChangelogContext context) {
            return ChangelogMode.all();
        }

        public void eval(Context ctx, @StateHint Last s, @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row input) {
            Integer v = (Integer) input.getField(1);
            if (s.last != null && v == 0) {
                collect(Row.ofKind(RowKind.DELETE, s.last));
                ctx.clearAllState();
                return;
            }
            if (s.last != null) {
                collect(Row.ofKind(RowKind.UPDATE_BEFORE, s.last));
                collect(Row.ofKind(RowKind.UPDATE_AFTER, v));
            } else {
                collect(Row.ofKind(RowKind.INSERT, v));
            }
            s.last = v;
        }
    }

    @DataTypeHint("ROW<v INT>")
    public static class Upserting extends ProcessTableFunction<Row> implements ChangelogFunction {
        @Override
        public ChangelogMode getChangelogMode(ChangelogContext context) {
            return ChangelogMode.upsert(false);
        }

        public void eval(Context ctx, @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row input) {
            Integer v = (Integer) input.getField(1);
            collect(Row.ofKind(v != 0 ? RowKind.UPDATE_AFTER : RowKind.DELETE, v));
        }
    }

    public static class Sides {
        public String left = null;
        public String right = null;
    }

    @DataTypeHint("ROW<what STRING, x STRING, y STRING>")
    public static class Both extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @StateHint Sides s,
                @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row a,
                @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row b) {
            if (a != null) {
                s.left = String.valueOf(a.getField(1));
            }
            if (b != null) {
                s.right = String.valueOf(b.getField(1));
            }
            collect(Row.of(a != null ? "a" : "b", s.left, s.right));
        }
    }

    @DataTypeHint("INT")
    public static class Gen extends ProcessTableFunction<Integer> {
        public void eval(@ArgumentHint(name = "n") Integer n) {
            for (int i = 0; i < n; i++) {
                collect(i);
            }
        }
    }

    @DataTypeHint("ROW<s STRING>")
    public static class Sorted extends ProcessTableFunction<Row> {
        public void eval(Context ctx, @ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE) Row input) {
            TimeContext<Long> t = ctx.timeContext(Long.class);
            collect(Row.of(input.getField("v") + " wm " + t.currentWatermark() + " twm " + t.tableWatermark()));
        }
    }

    @DataTypeHint("ROW<what STRING, t STRING>")
    public static class SortTimers extends ProcessTableFunction<Row> {
        public void eval(
                Context ctx,
                @ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.REQUIRE_ON_TIME}) Row input) {
            TimeContext<LocalDateTime> t = ctx.timeContext(LocalDateTime.class);
            collect(Row.of("row " + input.getField("v"), String.valueOf(t.time())));
            LocalDateTime later = t.time().plusSeconds(3);
            t.registerOnTime(later);
            t.registerOnTime("n" + input.getField("v"), later);
        }

        public void onTimer(OnTimerContext ctx) {
            collect(
                    Row.of(
                            "timer " + ctx.currentTimer(),
                            String.valueOf(ctx.timeContext(LocalDateTime.class).time())));
        }
    }

    @DataTypeHint("ROW<s STRING>")
    public static class Typed extends ProcessTableFunction<Row> {
        public void eval(
                @ArgumentHint(
                                value = ArgumentTrait.SET_SEMANTIC_TABLE,
                                type = @DataTypeHint("ROW<name STRING, v BIGINT>"))
                        Row input,
                @ArgumentHint(name = "k", isOptional = true) Integer k) {
            collect(Row.of(input + " " + k));
        }
    }

    static final List<Class<? extends ProcessTableFunction<?>>> FUNCTIONS =
            List.of(
                    Greeting.class, Memory.class, OptionalMemory.class, RowState.class, Viewing.class, PassRow.class,
                    PassSet.class, FollowUp.class, TimerPlay.class, Kinds.class, KindsBefore.class, KindsFull.class,
                    KindsRow.class, Retracting.class, Upserting.class, Both.class, Gen.class, Sorted.class,
                    SortTimers.class, Typed.class);

    // ------------------------------------------------------------------ tables

    static final long STEP_MS = 200;
    static final Map<String, JsonNode> steps = new ConcurrentHashMap<>(); // by database, as each case has its own
    static final Map<String, ArrayNode> written = new ConcurrentHashMap<>();
    static long begin;

    static synchronized long begun() {
        if (begin == 0) {
            begin = System.currentTimeMillis() + 3_000; // until all sources are there
        }
        return begin;
    }

    static ChangelogMode mode(String name) {
        switch (name) {
            case "insert":
                return ChangelogMode.insertOnly();
            case "upsert":
                return ChangelogMode.upsert(false);
            case "upsert-keys":
                return ChangelogMode.upsert();
            case "any":
                return null;
            default:
                return ChangelogMode.all();
        }
    }

    /** Gives the steps of one table, each at its time, so that steps of several tables come in order. */
    static class Steps implements SourceFunction<RowData> {
        final String database;
        final String table;
        final List<LogicalType> types;

        Steps(ObjectIdentifier table, List<LogicalType> types) {
            this.database = table.getDatabaseName();
            this.table = table.getObjectName();
            this.types = types;
        }

        @Override
        public void run(SourceContext<RowData> ctx) throws Exception {
            JsonNode given = steps.get(database);
            for (int place = 0; place < given.size(); place++) {
                long wait = begun() + place * STEP_MS - System.currentTimeMillis();
                if (wait > 0) {
                    Thread.sleep(wait);
                }
                JsonNode step = given.get(place);
                if (step.isNumber()) {
                    ctx.emitWatermark(new Watermark(step.asLong()));
                } else if (step.get(0).asText().equals(table)) {
                    ctx.collect(row(step));
                }
            }
            Thread.sleep(2 * STEP_MS);
        }

        RowData row(JsonNode step) {
            GenericRowData row = new GenericRowData(types.size());
            for (RowKind kind : RowKind.values()) {
                if (kind.shortString().equals(step.get(1).asText())) {
                    row.setRowKind(kind);
                }
            }
            for (int place = 0; place < types.size(); place++) {
                row.setField(place, value(types.get(place), step.get(2).get(place)));
            }
            return row;
        }

        static Object value(LogicalType type, JsonNode value) {
            if (value.isNull()) {
                return null;
            }
            switch (type.getTypeRoot()) {
                case INTEGER:
                    return value.asInt();
                case BIGINT:
                    return value.asLong();
                case TIMESTAMP_WITHOUT_TIME_ZONE:
                case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                    return TimestampData.fromEpochMillis(value.asLong());
                default:
                    return StringData.fromString(value.asText());
            }
        }

        @Override
        public void cancel() {}
    }

    static class StepsTable implements ScanTableSource, SupportsSourceWatermark {
        final ObjectIdentifier table;
        final List<LogicalType> types;
        final ChangelogMode mode;

        StepsTable(ObjectIdentifier table, List<LogicalType> types, ChangelogMode mode) {
            this.table = table;
            this.types = types;
            this.mode = mode;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return mode;
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            // Not bounded, as only such a source hands on watermarks; it ends all the same.
            return SourceFunctionProvider.of(new Steps(table, types), false);
        }

        @Override
        public void applySourceWatermark() {}

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return table.asSummaryString();
        }
    }

    static class WrittenTable implements DynamicTableSink {
        final ChangelogMode mode;
        final String database;
        final DataType type;

        WrittenTable(ChangelogMode mode, String database, DataType type) {
            this.mode = mode;
            this.database = database;
            this.type = type;
        }

        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return mode == null ? requested : mode;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            DataStructureConverter converter = context.createDataStructureConverter(type);
            String to = database;
            return SinkFunctionProvider.of(
                    new SinkFunction<RowData>() {
                        @Override
                        public void invoke(RowData value, SinkFunction.Context ignored) {
                            ArrayNode row = text((Row) converter.toExternal(value));
                            ArrayNode rows = written.get(to);
                            synchronized (rows) {
                                rows.add(row);
                            }
                        }
                    });
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "written";
        }
    }

    /** Tables 'steps': a source, or a sink that remembers its rows. */
    public static class StepsFactory implements DynamicTableSourceFactory, DynamicTableSinkFactory {
        static final ConfigOption<String> MODE = ConfigOptions.key("mode").stringType().defaultValue("insert");

        @Override
        public String factoryIdentifier() {
            return "steps";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of();
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of(MODE);
        }

        @Override
        public DynamicTableSource createDynamicTableSource(Context context) {
            FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
            return new StepsTable(
                    context.getObjectIdentifier(),
                    context.getPhysicalRowDataType().getLogicalType().getChildren(),
                    mode(helper.getOptions().get(MODE)));
        }

        @Override
        public DynamicTableSink createDynamicTableSink(Context context) {
            FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
            return new WrittenTable(
                    mode(helper.getOptions().get(MODE)),
                    context.getObjectIdentifier().getDatabaseName(),
                    context.getPhysicalRowDataType());
        }
    }

    // ------------------------------------------------------------------ cases

    static ArrayNode text(Row row) {
        ArrayNode values = JSON.createArrayNode();
        values.add(row.getKind().shortString());
        for (int place = 0; place < row.getArity(); place++) {
            values.add(String.valueOf(row.getField(place)));
        }
        return values;
    }

    /** Declares the tables of a case in a database of its own and adds what it runs to a job. */
    static void add(TableEnvironment env, StatementSet job, String database, JsonNode given, ObjectNode answer)
            throws Exception {
        env.executeSql("CREATE DATABASE " + database);
        env.executeSql("USE " + database);
        JsonNode tables = given.get("tables");
        for (Iterator<String> names = tables.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            declare(env, name, tables.get(name).get(1).asText(), tables.get(name).get(0).asText());
        }
        steps.put(database, given.get("steps"));
        ArrayNode rows = answer.putArray("rows");
        written.put(database, rows);
        String sql = given.get("sql").asText();
        if (!sql.startsWith("INSERT")) {
            ArrayNode names = answer.putArray("names");
            List<String> columns = new ArrayList<>();
            for (Column each : env.sqlQuery(sql).getResolvedSchema().getColumns()) {
                names.add(each.getName());
                String type = each.getDataType().nullable().getLogicalType().asSerializableString();
                columns.add("`" + each.getName() + "` " + type);
            }
            declare(env, "written", String.join(", ", columns), "any");
            sql = "INSERT INTO written " + sql;
        }
        env.explainSql(sql);
        job.addInsertSql(sql);
    }

    static void declare(TableEnvironment env, String name, String columns, String mode) {
        env.executeSql(
                String.format(
                        "CREATE TABLE `%s` (%s) WITH ('connector' = 'steps', 'mode' = '%s')", name, columns, mode));
    }

    static void fail(ObjectNode answer, Exception error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        answer.put("error", String.valueOf(cause.getMessage()));
    }

    /** Runs cases as one job; those that cannot be planned have their error. */
    static void run(JsonNode cases, List<Integer> chosen, ObjectNode[] answers) {
        Configuration configuration = new Configuration();
        configuration.setString("parallelism.default", "1");
        configuration.setString("execution.buffer-timeout.interval", "0 ms");
        configuration.setString("restart-strategy.type", "none");
        configuration.setString("table.local-time-zone", "UTC");
        configuration.setString("taskmanager.memory.network.min", "256mb");
        configuration.setString("taskmanager.memory.network.max", "256mb");
        TableEnvironment env =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build());
        for (Class<? extends ProcessTableFunction<?>> each : FUNCTIONS) {
            env.createTemporarySystemFunction(each.getSimpleName(), each);
        }
        StatementSet job = env.createStatementSet();
        boolean any = false;
        for (int place : chosen) {
            try {
                add(env, job, "c" + place, cases.get(place), answers[place]);
                any = true;
            } catch (Exception error) {
                fail(answers[place], error);
            }
        }
        begin = 0;
        if (!any) {
            return;
        }
        try {
            job.execute().await();
        } catch (Exception error) {
            for (int place : chosen) {
                if (!answers[place].has("error")) {
                    fail(answers[place], error);
                }
            }
        }
    }

    /** The functions that a case calls: their names are the uids of calls, so a job has each of them once. */
    static Set<String> calls(JsonNode given) {
        Set<String> found = new HashSet<>();
        for (Class<?> each : FUNCTIONS) {
            if (given.get("sql").asText().matches(".*\\b" + each.getSimpleName() + "\\b`?\\(.*")) {
                found.add(each.getSimpleName());
            }
        }
        return found;
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode cases = JSON.readTree(Files.readString(Path.of(arguments[0])));
        ObjectNode[] answers = new ObjectNode[cases.size()];
        List<Integer> waiting = new ArrayList<>();
        List<List<Integer>> jobs = new ArrayList<>();
        for (int place = 0; place < answers.length; place++) {
            answers[place] = JSON.createObjectNode();
            if (cases.get(place).get("fails").asBoolean()) {
                jobs.add(List.of(place));
            } else {
                waiting.add(place);
            }
        }
        while (!waiting.isEmpty()) {
            Set<String> used = new HashSet<>();
            List<Integer> chosen = new ArrayList<>();
            for (int place : waiting) {
                Set<String> called = calls(cases.get(place));
                if (Collections.disjoint(called, used)) {
                    used.addAll(called);
                    chosen.add(place);
                }
            }
            waiting.removeAll(chosen);
            jobs.add(0, chosen);
        }
        for (List<Integer> chosen : jobs) {
            run(cases, chosen, answers);
            for (int place : chosen) {
                System.out.println("ANSWER " + place + " " + JSON.writeValueAsString(answers[place]));
            }
        }
    }
}
