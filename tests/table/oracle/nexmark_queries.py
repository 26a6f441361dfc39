# ruff: noqa: E501
"""Nexmark's queries in Flink's SQL, and what they mean over the whole input in DuckDB's.

Left out: q6 (Flink does not run it), q10 (the same as q0 into files), q13 (a look-up of a side input).
"""

_TUMBLE = "INTERVAL '10' SECOND"
_BUCKET = "time_bucket(INTERVAL '10 seconds', {0}, TIMESTAMP '2000-01-01')"
_START = _BUCKET.format('"dateTime"')

QUERIES: dict[str, tuple[str, str | None]] = {
    "q0": (
        "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
        "SELECT auction, bidder, price, dateTime, extra FROM bid",
    ),
    "q1": ("SELECT auction, bidder, 0.908 * price AS price FROM bid", None),
    "q2": ("SELECT auction, price FROM bid WHERE MOD(auction, 12) = 0", None),
    "q3": (
        "SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id "
        "WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')",
        None,
    ),
    "q4": (
        "SELECT Q.category, AVG(Q.final) FROM (SELECT MAX(B.price) AS final, A.category FROM auction A, bid B "
        "WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires GROUP BY A.id, A.category) Q "
        "GROUP BY Q.category",
        "SELECT Q.category, TRUNC(AVG(Q.final)) FROM (SELECT MAX(B.price) AS final, A.category FROM auction A, bid B "
        "WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires GROUP BY A.id, A.category) Q "
        "GROUP BY Q.category",
    ),
    "q5": (
        "SELECT AuctionBids.auction, AuctionBids.num FROM (SELECT auction, count(*) AS num, window_start AS starttime, "
        "window_end AS endtime FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' "
        "SECOND)) GROUP BY auction, window_start, window_end) AS AuctionBids JOIN (SELECT max(CountBids.num) AS maxn, "
        "CountBids.starttime, CountBids.endtime FROM (SELECT count(*) AS num, window_start AS starttime, window_end AS "
        "endtime FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY "
        "auction, window_start, window_end) AS CountBids GROUP BY CountBids.starttime, CountBids.endtime) AS MaxBids ON "
        "AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime AND AuctionBids.num >= "
        "MaxBids.maxn",
        "WITH h AS (SELECT auction, time_bucket(INTERVAL '2 seconds', dateTime, TIMESTAMP '2000-01-01') - "
        "i * INTERVAL '2 seconds' AS s FROM bid, range(5) r(i)), c AS (SELECT auction, s, COUNT(*) AS num FROM h GROUP BY "
        "auction, s), m AS (SELECT s, MAX(num) AS maxn FROM c GROUP BY s) SELECT auction, num FROM c JOIN m USING (s) "
        "WHERE num >= maxn",
    ),
    "q7": (
        "SELECT B.auction, B.price, B.bidder, B.`dateTime` FROM bid B JOIN (SELECT MAX(price) AS maxprice, window_end AS "
        f"`dateTime` FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), {_TUMBLE})) GROUP BY window_start, window_end) "
        "B1 ON B.price = B1.maxprice WHERE B.`dateTime` BETWEEN B1.`dateTime` - INTERVAL '10' SECOND AND B1.`dateTime`",
        f"WITH m AS (SELECT MAX(price) AS maxprice, {_START} AS s FROM bid GROUP BY s) SELECT auction, price, bidder, "
        "dateTime FROM bid JOIN m ON price = maxprice AND dateTime BETWEEN s AND s + INTERVAL '10 seconds'",
    ),
    "q8": (
        "SELECT P.id, P.name, P.starttime FROM (SELECT id, name, window_start AS starttime, window_end AS endtime FROM "
        f"TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), {_TUMBLE})) GROUP BY id, name, window_start, window_end) P "
        "JOIN (SELECT seller, window_start AS starttime, window_end AS endtime FROM TABLE(TUMBLE(TABLE auction, "
        f"DESCRIPTOR(`dateTime`), {_TUMBLE})) GROUP BY seller, window_start, window_end) A ON P.id = A.seller AND "
        "P.starttime = A.starttime AND P.endtime = A.endtime",
        f"WITH p AS (SELECT DISTINCT id, name, {_START} AS s FROM person), a AS (SELECT DISTINCT seller, {_START} AS s "
        "FROM auction) SELECT p.id, p.name, p.s FROM p JOIN a ON p.id = a.seller AND p.s = a.s",
    ),
    "q9": (
        "SELECT id, itemName, auction, bidder, price FROM (SELECT A.id, A.itemName, B.auction, B.bidder, B.price, "
        "ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum FROM auction A, bid B "
        "WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires) WHERE rownum <= 1",
        "SELECT id, itemName, auction, bidder, price FROM (SELECT A.id, A.itemName, B.auction, B.bidder, B.price, "
        "ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime ASC) AS rownum FROM auction A, bid B "
        "WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires) WHERE rownum <= 1",
    ),
    "q11": (
        "SELECT B.bidder, count(*) AS bid_count, SESSION_START(B.`dateTime`, INTERVAL '3' SECOND) AS starttime, "
        "SESSION_END(B.`dateTime`, INTERVAL '3' SECOND) AS endtime FROM bid B GROUP BY B.bidder, SESSION(B.`dateTime`, "
        "INTERVAL '3' SECOND)",
        "WITH g AS (SELECT *, CASE WHEN dateTime - LAG(dateTime) OVER w < INTERVAL '3 seconds' THEN 0 ELSE 1 END AS n FROM "
        "bid WINDOW w AS (PARTITION BY bidder ORDER BY dateTime)), s AS (SELECT *, SUM(n) OVER (PARTITION BY bidder ORDER "
        "BY dateTime) AS session FROM g) SELECT bidder, COUNT(*), MIN(dateTime), MAX(dateTime) + INTERVAL '3 seconds' FROM "
        "s GROUP BY bidder, session",
    ),
    "q14": (
        "SELECT auction, bidder, 0.908 * price AS price, CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN "
        "'dayTime' WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType, "
        "extra FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
        "SELECT auction, bidder, 0.908 * price AS price, CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN "
        "'dayTime' WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType, "
        "extra FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000",
    ),
    "q15": (
        "SELECT DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, count(*) AS total_bids, count(*) filter (where price < "
        "1000000) AS rank1_bids, count(distinct bidder) AS total_bidders, count(distinct bidder) filter (where price < "
        "1000000) AS rank1_bidders, count(distinct auction) filter (where price >= 1000000) AS rank3_auctions FROM bid "
        "GROUP BY DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')",
        "SELECT strftime(dateTime, '%Y-%m-%d') AS day, count(*), count(*) filter (where price < 1000000), count(distinct "
        "bidder), count(distinct bidder) filter (where price < 1000000), count(distinct auction) filter (where price >= "
        "1000000) FROM bid GROUP BY day",
    ),
    "q16": (
        "SELECT channel, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, max(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`, "
        "count(*) AS total_bids, count(distinct auction) AS total_auctions FROM bid GROUP BY channel, "
        "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')",
        "SELECT channel, strftime(dateTime, '%Y-%m-%d') AS day, max(strftime(dateTime, '%H:%M')), count(*), count(distinct "
        "auction) FROM bid GROUP BY channel, day",
    ),
    "q17": (
        "SELECT auction, DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, count(*) AS total_bids, min(price) AS min_price, "
        "max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price FROM bid GROUP BY auction, "
        "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')",
        "SELECT auction, strftime(dateTime, '%Y-%m-%d') AS day, count(*), min(price), max(price), trunc(avg(price)), "
        "sum(price) FROM bid GROUP BY auction, day",
    ),
    "q18": (
        "SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` "
        "DESC) AS rank_number FROM bid) WHERE rank_number <= 1",
        "SELECT auction, bidder, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime "
        "DESC) AS rank_number FROM bid) WHERE rank_number <= 1",
    ),
    "q19": (
        "SELECT * FROM (SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number "
        "FROM bid) WHERE rank_number <= 10",
        None,
    ),
    "q20": (
        "SELECT auction, bidder, price, channel, itemName, category FROM bid AS B INNER JOIN auction AS A ON B.auction = "
        "A.id WHERE A.category = 10",
        None,
    ),
    "q21": (
        "SELECT auction, bidder, price, channel, CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' "
        "THEN '1' WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3' ELSE REGEXP_EXTRACT(url, "
        "'(&|^|\\?)channel_id=([^&]*)', 2) END AS channel_id FROM bid WHERE REGEXP_EXTRACT(url, "
        "'(&|^|\\?)channel_id=([^&]*)', 2) IS NOT NULL",
        None,
    ),
    "q22": (
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, "
        "SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid",
        "SELECT auction, bidder, price, channel, split(url, '/')[4], split(url, '/')[5], split(url, '/')[6] FROM bid",
    ),
    "q23": (
        "SELECT B.auction, B.price, A.itemName, P.name FROM bid B JOIN auction A ON B.auction = A.id JOIN person P ON "
        "B.bidder = P.id AND A.seller <> P.id",
        None,
    ),
    "tumble": (
        f"SELECT channel, window_start, window_end, SUM(price), COUNT(*) FROM TABLE(TUMBLE(TABLE bid, "
        f"DESCRIPTOR(`dateTime`), {_TUMBLE})) GROUP BY channel, window_start, window_end",
        f"SELECT channel, {_START} AS s, s + INTERVAL '10 seconds', SUM(price), COUNT(*) FROM bid GROUP BY channel, s",
    ),
    "window top": (
        "SELECT auction, price, window_start FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER "
        f"BY price DESC) AS rn FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), {_TUMBLE}))) WHERE rn <= 3",
        f"SELECT auction, price, s FROM (SELECT *, {_START} AS s, ROW_NUMBER() OVER (PARTITION BY {_START} ORDER BY price "
        "DESC) AS rn FROM bid) WHERE rn <= 3",
    ),
    "interval join": (
        "SELECT A.id, B.price FROM auction A JOIN bid B ON A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` - INTERVAL "
        "'5' SECOND AND A.`dateTime` + INTERVAL '5' SECOND",
        "SELECT A.id, B.price FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime - INTERVAL '5 "
        "seconds' AND A.dateTime + INTERVAL '5 seconds'",
    ),
    "over": (
        "SELECT auction, price, SUM(price) OVER (PARTITION BY auction ORDER BY `dateTime` ROWS BETWEEN 2 PRECEDING AND "
        "CURRENT ROW) FROM bid",
        "SELECT auction, price, SUM(price) OVER (PARTITION BY auction ORDER BY dateTime ROWS BETWEEN 2 PRECEDING AND CURRENT "
        "ROW) FROM bid",
    ),
}
QUERIES["q12"] = (
    "SELECT bidder, COUNT(*) FROM bid GROUP BY bidder",
    None,
)
"""q12 counts by processing time: its windows depend on the clock, so the counts by bidder stand for it."""
