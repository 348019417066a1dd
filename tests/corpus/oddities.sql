SELECT of.k, a.k FROM a AS OF JOIN b ON of.k = b.k;

SELECT * FROM a JOIN b AS OF ON of.k = a.k;

SELECT * FROM a JOIN b AS of USING (k);

SELECT * FROM a AS OF, b WHERE of.k = b.k;

SELECT * FROM (SELECT 1 AS k) AS OF;

SELECT * FROM a AS OF LEFT JOIN b ON of.k = b.k;

SELECT * FROM a AS OF WHERE of.k = 1;

SELECT price AS of, qty AS as, ts AS asof FROM trades;

SELECT asof.k FROM trades asof JOIN quotes ON asof.k = quotes.k;

SELECT * FROM trades AS asof JOIN quotes ON asof.k = quotes.k;

SELECT * FROM trades AS asof LEFT JOIN quotes q ON q.k = 1;

SELECT `asof`.k FROM trades `asof` JOIN quotes ON true;

SELECT * FROM asof JOIN quotes USING (k);

SELECT * FROM trades JOIN asof ON asof.k = trades.k;

SELECT asof, match_condition, stream, tolerance, grace, emit, versioned FROM t;

SELECT match_condition (1), asof(2), stream(3), known(4), emit(5) FROM t;

SELECT * FROM t emit;

SELECT * FROM t grace JOIN s ties ON grace.k = ties.k;

SELECT * FROM t AS tolerance JOIN s AS direction ON tolerance.k = direction.k;

SELECT * FROM t known JOIN s late ON known.k = late.k;

SELECT period, tolerance INTERVAL FROM t;

SELECT 'a JOIN b AS OF a.ts ON a.k = b.k', "EXPLAIN TEMPORAL", r'GRACE PERIOD' FROM t;

SELECT 'it''s AS OF \' WITH REASON' AS `MATCH_CONDITION (a >= b)` FROM `a JOIN b AS OF a.ts` AS `of`;

SELECT `AS OF`, `FOR SYSTEM_TIME AS OF x` FROM `ASOF` JOIN `GRACE PERIOD` ON `ASOF`.k = `GRACE PERIOD`.k;

SELECT 1 -- FROM a JOIN b AS OF a.ts ON a.k = b.k
FROM t;

SELECT /* a ASOF JOIN b MATCH_CONDITION (a.x >= b.x) */ 1 /* nested /* AS OF */ comment */ FROM t /* EMIT FINAL */;

/* CREATE VERSIONED TABLE r */ SELECT * FROM t -- DEDUPLICATE WITHIN INTERVAL 1 HOUR
;

SELECT * FROM trades VERSION AS OF 3;

SELECT * FROM trades VERSION AS OF 'tag' AS v WHERE v.a = 1;

SELECT * FROM trades TIMESTAMP AS OF '2026-01-01 00:00:00';

SELECT * FROM trades FOR SYSTEM_TIME AS OF '2026-01-01' AS t JOIN s FOR SYSTEM_VERSION AS OF 5 ON t.k = s.k;

SELECT * FROM a JOIN b FOR TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY AS b2 ON a.k = b2.k;

SELECT * FROM a JOIN b TIMESTAMP AS OF date_sub(current_date(), 1) ON a.k = b.k;

SELECT * FROM a JOIN b FOR VERSION AS OF 1 USING (k);

SELECT * FROM STREAM trades;

SELECT * FROM STREAM(trades) AS s;

SELECT * FROM STREAM trades AS s JOIN quotes q ON s.k = q.k;

SELECT stream.a FROM t AS stream;

SELECT * FROM stream;

SELECT * FROM stream JOIN s ON stream.k = s.k;

SELECT * FROM stream s WHERE s.a = 1;

SELECT * FROM trades WATERMARK ts DELAY OF INTERVAL 1 MINUTE;

SELECT * FROM trades WATERMARK ts DELAY OF INTERVAL 1 MINUTE AS t JOIN quotes WATERMARK qts DELAY OF INTERVAL 5 MINUTES q ON t.k = q.k;

SELECT * FROM STREAM trades WATERMARK to_timestamp(s) AS ts DELAY OF INTERVAL 10 SECONDS t;

SELECT window(ts, '1 hour'), count(*) FROM (SELECT * FROM trades) WATERMARK ts DELAY OF INTERVAL 1 HOUR AS t GROUP BY 1;

SELECT * FROM watermark;

SELECT window(ts, '10 minutes') FROM clicks;

SELECT * FROM a JOIN b APPROX NEAREST 3 BY DISTANCE abs(a.x - b.x);

SELECT * FROM a LEFT JOIN b EXACT NEAREST 1 BY SIMILARITY a.x * b.x;

SELECT nearest.a FROM t nearest;

SELECT `from`, t.select, t.order FROM t WHERE t.limit > 1;

SELECT date, timestamp, interval, year, first, last, time FROM t;

SELECT 1 AS select, 2 AS from FROM t;

SELECT 2026_x, 1a FROM t;

SELECT * FROM `we``ird`.`ta ble` AS `x y`(`a b`, c);

SELECT '🙂', `🙂` FROM t -- 🙂
WHERE x = '🙂 AS OF';

SELECT history, sliding_window FROM t;

SELECT history(1), myhistory (2) FROM t;

SELECT grace AS period, late AS `to`, known AS as_of, with AS reason FROM t;

SELECT * FROM versioned JOIN upsert ON versioned.k = upsert.k;

CREATE TABLE versioned (stream INT, asof STRING, grace INT) USING parquet;

CREATE TABLE stream AS SELECT 1 AS asof;

CREATE VIEW asof AS SELECT * FROM t AS OF;

DROP TABLE IF EXISTS stream;

DROP VIEW stream;

SHOW TABLES LIKE 'stream*';

DESCRIBE stream;

EXPLAIN SELECT 1 AS temporal;

EXPLAIN SELECT * FROM temporal;

INSERT INTO stream SELECT * FROM asof;

INSERT INTO t SELECT 'CREATE STREAM x', "AS OF";

BEGIN
  SELECT 'a AS OF b';
  SELECT * FROM a AS OF;
END;

SELECT * FROM a JOIN b ON a.as = b.of;

SELECT a.asof.join FROM a;

SELECT * FROM t WHERE a IN (SELECT * FROM s AS OF) AND b = 'x';

SELECT /*+ BROADCAST(of) */ * FROM a AS OF JOIN b AS asof ON of.k = asof.k;

SELECT x -> x AS of FROM t;

FROM trades AS OF |> JOIN quotes AS asof ON of.k = asof.k |> AS stream |> SELECT stream.k;

WITH of AS (SELECT 1 AS k), asof AS (SELECT 2 AS k) SELECT * FROM of JOIN asof ON of.k = asof.k;

WITH stream AS (SELECT 1 AS k) SELECT * FROM stream AS OF;

SELECT * FROM (a AS OF JOIN b ON of.k = b.k) JOIN c ON c.k = of.k;

SELECT * FROM a TABLESAMPLE (1 ROWS) AS OF;

SELECT * FROM VALUES (1), (2) AS OF(k);

SELECT * FROM range(3) AS OF;

SELECT * FROM sales PIVOT (sum(x) FOR k IN (1, 2)) AS OF;

SELECT * FROM a LATERAL VIEW explode(l) OF AS x;

MERGE INTO t AS OF USING s AS asof ON of.k = asof.k WHEN MATCHED THEN DELETE;

DELETE FROM t AS OF WHERE of.k = 1;

UPDATE t AS OF SET k = 1;

SELECT * FROM a JOIN b AS OF ON of.k = a.k ORDER BY 1;

SELECT * FROM;

SELECT * FROM t WHERE;

SELECT 1 AS stream FROM STREAM;

SELECT asof FROM;

SELECT stream. FROM t;

SELECT 1 /* a AS OF b */ FROM FROM t;

SELECT * FROM t -- MATCH_CONDITION (a >= b)
WHERE AND;

SELECT -1, - -1, +1, .5, 5., 1e-3 FROM t;

SELECT "a", 'b' 'c' FROM t;

SELECT `naïve`, `größe` FROM `día`;

SELECT deduplicate within FROM t AS deduplicate;

SELECT * FROM t deduplicate JOIN s within ON deduplicate.a = within.a;

SELECT 'x DEDUPLICATE WITHIN y' /* DEDUPLICATE WITHIN */ FROM (SELECT 1 AS within) deduplicate;
