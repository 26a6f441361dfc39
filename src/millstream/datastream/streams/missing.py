"""Methods that streams do not have, and what to call instead: those of other streams, of Java, Spark, pandas."""

from __future__ import annotations

__all__ = ["OF_CONNECTED", "OF_STREAMS", "OF_TABLES", "OF_WINDOWS", "TO_KEYS", "TO_RESULTS"]

TO_KEYS = (
    "Streams with keys have it. Call key_by(...) before: stream.key_by(lambda record: record[0]).{name}(...)."
)
TO_RESULTS = "Make a stream of it before, with {before}; that has it."

_TABLE = (
    "Make a StreamTableEnvironment of the environment: it has execute_sql, from_data_stream, to_data_stream."
)

OF_TABLES = dict.fromkeys(
    (
        "totable",
        "tochangelogstream",
        "todatastream",
        "createtemporaryview",
        "sqlquery",
        "executesql",
        "fromtable",
    ),
    _TABLE,
)

OF_STREAMS = {
    **OF_TABLES,
    "groupby": "Use key_by(...).",
    "partitionby": "Use key_by(...), or partition_custom(...).",
    "foreach": "Use map(...), or add_sink(...) with a SinkFunction.",
    "apply": "Use map(...), flat_map(...) or process(...); of windows: key_by(...).window(...).apply(...).",
    "collect": "Use execute_and_collect(), which runs the job and gives its records.",
    "take": "Use execute_and_collect(limit=...), which gives a list.",
    "limit": "Use execute_and_collect(limit=...), which gives a list.",
    "head": "Use execute_and_collect(limit=...), which gives a list.",
    "show": "Use print(), then execute() on the environment.",
    "execute": "Call execute() on the environment; execute_and_collect() runs the job for this stream's records.",
    "where": "Use filter(...); of joins: a.join(b).where(...).",
    "select": "Use map(...), or project(...) on a stream of TUPLE.",
    "count": "Map each record to (key, 1), then key_by(...).sum(1).",
    "writeastext": "Use sink_to(FileSink.for_row_format(...).build()).",
    "writeascsv": "Use sink_to(FileSink.for_bulk_format(...).build()).",
    "timewindow": "Use key_by(...).window(TumblingEventTimeWindows.of(...)).",
    "timewindowall": "Use window_all(TumblingEventTimeWindows.of(...)).",
    "withwatermark": "Use assign_timestamps_and_watermarks(WatermarkStrategy....).",
    "sideoutput": "Use get_side_output(OutputTag(...)).",
    "setname": "Use name(...).",
    "setuid": "Use uid(...).",
}

OF_WINDOWS = {
    "count": "Use aggregate(...) with an AggregateFunction that counts.",
    "agg": "Use aggregate(...).",
    "fold": "Use aggregate(...).",
    "flatmap": "Use process(...) with a ProcessWindowFunction.",
}

OF_CONNECTED = {
    "filter": "Use flat_map(CoFlatMapFunction), which may yield nothing; or filter the streams before connect(...).",
    "reduce": "Use process(KeyedCoProcessFunction) with state.",
    "keybyboth": "Use key_by(key_selector1, key_selector2).",
}
