SELECT 1;

SELECT DISTINCT ts, price FROM trades WHERE price > 10.5 ORDER BY ts DESC NULLS LAST LIMIT 10 OFFSET 5;

SELECT ALL t.* FROM trades AS t;

SELECT * EXCEPT (price, qty) FROM trades;

SELECT t.* EXCEPT (price) FROM trades t WHERE t.qty IS NOT DISTINCT FROM 3;

SELECT a, b, count(*) FROM t GROUP BY ALL HAVING count(*) > 1;

SELECT a, b, sum(c) FROM t GROUP BY GROUPING SETS ((a, b), (a), ());

SELECT a, b, grouping_id(a, b), sum(c) FROM t GROUP BY a, b WITH ROLLUP;

SELECT a, b, sum(c) FROM t GROUP BY CUBE (a, b);

SELECT sum(c) FILTER (WHERE a > 1) AS x, count(DISTINCT b) FROM t;

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v DESC) FROM t;

SELECT listagg(DISTINCT name, ', ') WITHIN GROUP (ORDER BY name) FROM t GROUP BY dept;

SELECT * FROM a JOIN b ON a.k = b.k;

SELECT * FROM a LEFT OUTER JOIN b USING (k, l) RIGHT JOIN c ON b.k = c.k FULL JOIN d ON c.k = d.k;

SELECT * FROM a LEFT SEMI JOIN b ON a.k = b.k;

SELECT * FROM a ANTI JOIN b ON a.k = b.k;

SELECT * FROM a NATURAL JOIN b CROSS JOIN c;

SELECT * FROM a, b c, LATERAL (SELECT * FROM d WHERE d.k = a.k) e;

SELECT * FROM a JOIN LATERAL (SELECT max(v) AS v FROM b WHERE b.k = a.k) AS m ON true;

SELECT * FROM (a JOIN b ON a.k = b.k) JOIN (c JOIN d USING (k)) ON a.k = c.k;

SELECT * FROM ((SELECT 1 AS k) UNION ALL (SELECT 2)) AS u JOIN a ON a.k = u.k;

SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(id, name);

SELECT * FROM (VALUES (1), (2), (3)) AS t(x) WHERE x IN (SELECT y FROM s) AND EXISTS (SELECT 1 FROM r WHERE r.x = t.x);

VALUES (1, 'a'), (2, 'b');

TABLE trades;

FROM trades SELECT symbol, price WHERE price > 1;

FROM trades INSERT INTO a SELECT symbol INSERT INTO b SELECT price;

SELECT * FROM range(0, 100, 5, 2) AS r(id);

SELECT * FROM explode(array(1, 2, 3)) AS t(x), posexplode(array('a'));

SELECT * FROM my_udtf(TABLE(trades) PARTITION BY symbol ORDER BY ts DESC, a => 1, b => 'x') AS t;

SELECT * FROM my_udtf(input => TABLE(SELECT * FROM trades) WITH SINGLE PARTITION);

SELECT k, v, x FROM t LATERAL VIEW explode(a) e AS x LATERAL VIEW OUTER posexplode(b) f AS p, y WHERE x > 1;

SELECT * FROM trades TABLESAMPLE (10 PERCENT) REPEATABLE (42) AS s;

SELECT * FROM trades TABLESAMPLE (5 ROWS) s JOIN b TABLESAMPLE (BUCKET 3 OUT OF 32) ON s.k = b.k;

SELECT * FROM sales PIVOT (sum(amount) AS s, avg(amount) AS a FOR (y, q) IN ((2018, 1) AS first, (2018, 2))) AS p;

SELECT * FROM sales UNPIVOT INCLUDE NULLS (amount FOR quarter IN (q1 AS `Q1`, q2, q3)) AS u;

SELECT * FROM sales UNPIVOT ((first_half, second_half) FOR y IN ((q1, q2) AS y1, (q3, q4) AS y2));

SELECT id, row_number() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM t QUALIFY n = 1;

SELECT sum(v) OVER w, last_value(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
FROM t WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW);

SELECT lag(v, 1) RESPECT NULLS OVER (ORDER BY ts), nth_value(v, 2) OVER (ORDER BY ts) FROM t;

SELECT a FROM t UNION SELECT b FROM s EXCEPT ALL SELECT c FROM r INTERSECT DISTINCT SELECT d FROM q;

SELECT a FROM t CLUSTER BY a;

SELECT a FROM t DISTRIBUTE BY a, b SORT BY a DESC;

WITH x AS (SELECT 1 AS a), y (b) AS (SELECT a FROM x) SELECT * FROM x, y WHERE x.a = y.b;

WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT * FROM n;

WITH a AS (WITH b AS (SELECT 1 AS i) SELECT * FROM b) SELECT * FROM (WITH c AS (SELECT * FROM a) SELECT * FROM c) AS d;

SELECT CASE WHEN a > 1 THEN 'x' WHEN a IS NULL THEN 'y' ELSE 'z' END AS c, CASE b WHEN 1 THEN 2 END FROM t;

SELECT CAST(a AS DECIMAL(10, 2)), a::STRING, TRY_CAST(b AS DATE), b :: ARRAY<STRUCT<x: INT, y: MAP<STRING, INT>>> FROM t;

SELECT DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00', TIMESTAMP_NTZ '2026-01-01 00:00:00', X'1F', 1L, 2S, 3Y, 1.5D, 2.5F, 1.0BD, 1e3;

SELECT INTERVAL 1 DAY 2 HOURS, INTERVAL '1 02:03:04' DAY TO SECOND, INTERVAL '1-2' YEAR TO MONTH, INTERVAL -5 MINUTES, - INTERVAL 3 WEEKS;

SELECT a.b.c, m['x'], l[0], s.x['y'].z, transform(l, x -> x + 1), reduce(l, 0, (acc, x) -> acc + x, acc -> acc * 2) FROM t;

SELECT struct(a, b AS c), named_struct('x', 1), map('a', 1), array(1, 2), (1, 2) FROM t;

SELECT a LIKE 'x%' ESCAPE '/', a ILIKE ANY ('x%', 'y%'), a RLIKE '^x', a NOT LIKE ALL ('a', 'b'), a REGEXP 'b' FROM t;

SELECT a BETWEEN 1 AND 2, a NOT IN (1, 2), NOT a, a <=> b, a <> b, a != b, a == b, ! c, ~d, a & b | c ^ d, a << 2, a >>> 1, a DIV b, a % b FROM t;

SELECT extract(YEAR FROM ts), trim(BOTH 'x' FROM name), substring(name FROM 2 FOR 3), overlay(name PLACING 'x' FROM 1), position('a' IN name) FROM t;

SELECT timestampadd(DAY, 1, ts), timestampdiff(HOUR, ts, now()), date_add(DAY, 1, d), current_date, current_timestamp, current_user FROM t;

SELECT /*+ BROADCAST(b), MERGE(a, c) */ * FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k;

SELECT /*+ REPARTITION(3, k) */ /*+ COALESCE(1) */ k FROM t;

SELECT * FROM t WHERE a = :x AND b IN (:y, :z);

SELECT * FROM t WHERE a = ? LIMIT ?;

SELECT * FROM IDENTIFIER('my' || '.t') WHERE IDENTIFIER('a') = 1;

SELECT * FROM IDENTIFIER(:name) AS n;

SELECT session_window(ts, '5 minutes') AS w, count(*) FROM clicks GROUP BY session_window(ts, '5 minutes'), u;

SELECT window(ts, '10 minutes', '5 minutes').start AS s, count(*) FROM clicks GROUP BY window(ts, '10 minutes', '5 minutes');

SELECT window, window.start, count(*) FROM clicks GROUP BY window(ts, '1 hour');

SELECT TRANSFORM (a, b) USING 'cat' AS (x STRING, y INT) FROM t;

SELECT TRANSFORM (a) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' USING 'cat' AS (x) FROM t;

SELECT * FROM parquet.`/data/trades/*.parquet` AS p;

SELECT * FROM json.`/data/x.json`, csv.`/data/y.csv`;

SELECT * FROM catalog1.db.schema2.t1;

FROM trades |> WHERE price > 1 |> SELECT symbol, price |> ORDER BY price |> LIMIT 3;

FROM trades |> EXTEND price * qty AS amount |> SET price = 0 |> DROP qty |> AS t |> AGGREGATE sum(amount) AS s GROUP BY symbol;

FROM trades |> JOIN quotes USING (symbol) |> UNION ALL (SELECT * FROM x) |> TABLESAMPLE (10 ROWS) |> PIVOT (sum(price) FOR symbol IN ('a', 'b'));

SELECT * FROM trades |> WHERE price > 1 |> SELECT *;

VALUES (0), (1) AS t(a) |> SELECT a AS b |> AGGREGATE count(*);

SELECT * FROM a JOIN b ON a.k = b.k AND (a.x > b.x OR a.y IS DISTINCT FROM b.y) JOIN c ON c.z = (SELECT max(z) FROM d WHERE d.k = a.k);

SELECT a FROM t MINUS SELECT b FROM s ORDER BY a;

SELECT name COLLATE UTF8_LCASE, v:a.b[0]::INT FROM t;
