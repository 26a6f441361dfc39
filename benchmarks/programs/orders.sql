-- The job of `sql_kills.py`, which puts in addresses and logins.
SET 'pipeline.name' = 'orders';
SET 'parallelism.default' = '2';

CREATE TABLE orders (
  id BIGINT, buyer STRING, item STRING, cents INT, at_time TIMESTAMP(3),
  WATERMARK FOR at_time AS at_time - INTERVAL '2' SECOND
) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = '${servers}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
);

CREATE TABLE totals (
  buyer STRING, orders BIGINT, cents BIGINT, dearest INT, mean DECIMAL(38, 6), PRIMARY KEY (buyer) NOT ENFORCED
) WITH (
  'connector' = 'jdbc', 'url' = '${url}', 'username' = '${user}', 'password' = '${password}', 'table-name' = 'totals'
);

-- Rows of this one go again: a buyer with one order more belongs to another row.
CREATE TABLE buyers_by_orders (orders BIGINT, buyers BIGINT, PRIMARY KEY (orders) NOT ENFORCED) WITH (
  'connector' = 'jdbc', 'url' = '${url}', 'username' = '${user}', 'password' = '${password}',
  'table-name' = 'buyers_by_orders'
);

CREATE TABLE items (item STRING, orders BIGINT, cents BIGINT, PRIMARY KEY (item) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'items', 'properties.bootstrap.servers' = '${servers}',
  'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'items'
);

CREATE TABLE seconds (second_start TIMESTAMP(3), item STRING, orders BIGINT, cents BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'seconds', 'properties.bootstrap.servers' = '${servers}', 'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'seconds'
);

EXECUTE STATEMENT SET BEGIN
  INSERT INTO totals
    SELECT buyer, COUNT(*), SUM(cents), MAX(cents), AVG(CAST(cents AS DECIMAL(20, 4))) FROM orders GROUP BY buyer;
  INSERT INTO buyers_by_orders
    SELECT orders, COUNT(*) FROM (SELECT buyer, COUNT(*) AS orders FROM orders GROUP BY buyer) GROUP BY orders;
  INSERT INTO items SELECT item, COUNT(*), SUM(cents) FROM orders GROUP BY item;
  INSERT INTO seconds
    SELECT window_start, item, COUNT(*), SUM(cents)
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at_time), INTERVAL '1' SECOND))
    GROUP BY window_start, window_end, item;
END;
