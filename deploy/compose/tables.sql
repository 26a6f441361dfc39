CREATE TABLE IF NOT EXISTS totals (
    region text NOT NULL,
    window_end_ms bigint NOT NULL,
    orders bigint NOT NULL,
    cents bigint NOT NULL,
    PRIMARY KEY (region, window_end_ms)
);
