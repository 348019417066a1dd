# a tumbling window, final, with grace: the aggregation takes the place of the FROM clause
SELECT k, window.start AS ws, count(*) AS n, avg(id) AS mean FROM clicks GROUP BY k, window(ts, '1 hour') GRACE PERIOD INTERVAL '5' MINUTES EMIT FINAL
----
== Clauses as read ==
line 1: GRACE PERIOD 5 min
line 1: EMIT FINAL (no options): once per window, when it is closed

== Temporal plan ==
Spark SQL
   columns: k string, ws timestamp, n bigint, mean double
   +- aggregate clicks by windows of 1 h
      emits: once per window, when stream time is 5 min behind its end
      late: a row whose windows have closed: stream time is at or after their end and 5 min
      state: a partial state per open window
      strategy: exact, compiled, whole micro-batches at a time
      +- Spark SQL
         columns: __k0 string, __time timestamp, __a1_0 bigint, _l0 bigint, _l1 string, _l2 timestamp
         +- stream clicks

== __sqlx_agg1: input ==
SELECT k AS __k0, ts AS __time, id AS __a1_0, `id` AS _l0, `k` AS _l1, `ts` AS _l2 FROM `clicks`

== Spark SQL around the operators ==
SELECT __k0 AS `k`, __ws AS ws, __a0 AS n, __a1 AS mean FROM __sqlx_agg1
====
# every update, with HAVING as a condition over the result, as a changelog
SELECT upper(k) AS kk, session_window.end AS we, sum(id) + 1 AS total FROM clicks WHERE id > 1 GROUP BY kk, session_window(ts, '10 minutes') HAVING total > 5 EMIT CHANGES AS CHANGELOG
----
== Clauses as read ==
line 1: EMIT CHANGES (AS): every update

== Temporal plan ==
Spark SQL
   columns: kk string, we timestamp, total bigint
   +- aggregate clicks by sessions that end 10 min after their last row
      emits: every update
      late: a row whose windows have closed: stream time is after their end and 0 s
      state: a partial state per open window
      strategy: exact, compiled, whole micro-batches at a time
      +- Spark SQL
         columns: __k0 string, __time timestamp, __a0_0 bigint, _l0 bigint, _l1 string, _l2 timestamp
         +- stream clicks

== __sqlx_agg1: input ==
SELECT upper(k) AS __k0, ts AS __time, id AS __a0_0, `id` AS _l0, `k` AS _l1, `ts` AS _l2 FROM `clicks` WHERE id > 1

== Spark SQL around the operators ==
SELECT __k0 AS kk, __we AS we, __a0 + 1 AS total FROM __sqlx_agg1 WHERE (__a0 + 1) > 5

== Notes ==
- GRACE PERIOD was not given: a row is late as soon as its window has ended.
====
# an aggregate without a partial state keeps its rows; FILTER goes with it
SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FILTER (WHERE id > 1) AS middle, count(*) AS n FROM clicks GROUP BY k, window(ts, '1 hour') EMIT FINAL
----
== Clauses as read ==
line 1: EMIT FINAL (no options): once per window, when it is closed

== Temporal plan ==
Spark SQL
   columns: k string, middle double, n bigint
   +- aggregate clicks by windows of 1 h
      emits: once per window, when stream time is 0 s behind its end
      late: a row whose windows have closed: stream time is at or after their end and 0 s
      state: all rows of open windows, for percentile_cont; a partial state for the others
      strategy: native: Spark's watermark and window aggregation; late is what the watermark of the query says
      +- Spark SQL
         columns: __k0 string, __time timestamp, __a0_0 bigint, __a0_f boolean, _l0 bigint, _l1 string, _l2 timestamp
         +- stream clicks

== __sqlx_agg1: input ==
SELECT k AS __k0, ts AS __time, id AS __a0_0, id > 1 AS __a0_f, `id` AS _l0, `k` AS _l1, `ts` AS _l2 FROM `clicks`

== Spark SQL around the operators ==
SELECT __k0 AS `k`, __a0 AS middle, __a1 AS n FROM __sqlx_agg1

== Notes ==
- GRACE PERIOD was not given: a row is late as soon as its window has ended.
====
# sliding windows with a limit, and rows that are late kept
SELECT k, sliding_window.end AS we, max(id) AS most FROM clicks GROUP BY k, sliding_window(ts, INTERVAL '1' HOUR) GRACE PERIOD INTERVAL '1' HOUR LATE TO late_clicks EMIT FINAL BUFFER MAX 1000 ROWS WHEN FULL SPILL IDLE TIMEOUT INTERVAL '1' MINUTE
----
== Clauses as read ==
line 1: GRACE PERIOD 1 h
line 1: LATE TO late_clicks
line 1: EMIT FINAL (BUFFER MAX ROWS, WHEN FULL, IDLE TIMEOUT): once per window, when it is closed

== Temporal plan ==
Spark SQL
   columns: k string, we timestamp, most bigint
   +- aggregate clicks by sliding windows of 1 h, both ends included
      emits: once per window, when stream time is 1 h behind its end
      late: a row whose windows have closed: stream time is after their end and 1 h; kept in late_clicks
      buffer: at most 1,000 rows a task, then the rest waits in the state store
      state: a partial state per open window
      strategy: exact, row by row: sliding windows
      idle: what is open goes out when nothing came for 1 min
      +- Spark SQL
         columns: __k0 string, __time timestamp, __a0_0 bigint, _l0 bigint, _l1 string, _l2 timestamp
         +- stream clicks

== __sqlx_agg1: input ==
SELECT k AS __k0, ts AS __time, id AS __a0_0, `id` AS _l0, `k` AS _l1, `ts` AS _l2 FROM `clicks`

== Spark SQL around the operators ==
SELECT __k0 AS `k`, __we AS we, __a0 AS most FROM __sqlx_agg1
====
# updates of groups that wait
SELECT k, count(DISTINCT id) AS n FROM clicks GROUP BY k EMIT EVERY INTERVAL '5' SECONDS PER KEY BUFFER MAX 10 MB WHEN FULL FAIL
----
== Clauses as read ==
line 1: EMIT EVERY (BUFFER MAX BYTES, WHEN FULL): one update a key every 5 s of event time

== Temporal plan ==
Spark SQL
   columns: k string, n bigint
   +- suppress: one update a key every 5 s of event time
      buffer: at most 10,485,760 bytes a task, then the query stops
      +- Spark SQL
         columns: k string, n bigint
         +- aggregate clicks by key, without windows
            emits: every update
            state: all values of open windows, for count; a partial state for the others
            strategy: exact, row by row: count of int64 distinct as bigint
            +- Spark SQL
               columns: __k0 string, __a0_0 bigint, _l0 bigint, _l1 string, _l2 timestamp
               +- stream clicks

== __sqlx_agg1: input ==
SELECT k AS __k0, id AS __a0_0, `id` AS _l0, `k` AS _l1, `ts` AS _l2 FROM `clicks`

== __sqlx_sup1: input ==
SELECT __k0 AS `k`, __a0 AS n FROM __sqlx_agg1

== Spark SQL around the operators ==
SELECT * FROM __sqlx_sup1
====
# the changes of an upsert table, filtered, once in five seconds a key
SELECT k, upper(title) AS title FROM items WHERE title <> '' EMIT EVERY INTERVAL '5' SECONDS PER KEY AS CHANGELOG
----
== Clauses as read ==
line 1: EMIT EVERY (AS): one update a key every 5 s of event time

== Temporal plan ==
Spark SQL
   columns: k string, title string
   +- suppress: one update a key every 5 s of event time
      +- Spark SQL
         columns: k string, title string
         +- the changes of the upsert table items
            keys: k
            +- Spark SQL
               columns: __k0 string, _l0 string, _l1 string, _l2 timestamp
               +- upsert items

== __sqlx_tab1: input ==
SELECT `k` AS __k0, `k` AS _l0, `title` AS _l1, `at` AS _l2 FROM `items` AS `items`

== __sqlx_sup1: input ==
SELECT k, upper(title) AS title FROM (SELECT _l0 AS `k`, _l1 AS `title`, _l2 AS `at` FROM __sqlx_tab1) AS `items` WHERE title <> '' 

== Spark SQL around the operators ==
SELECT * FROM __sqlx_sup1
====
# windows of final rows, through a common table expression
WITH hours AS (SELECT k, window.start AS hour, count(*) AS n FROM clicks GROUP BY k, window(ts, '1 hour') EMIT FINAL)
SELECT window.start AS day, max(n) AS most FROM hours GROUP BY window(hour, '1 day') EMIT FINAL
----
== Clauses as read ==
line 1: EMIT FINAL (no options): once per window, when it is closed
line 2: EMIT FINAL (no options): once per window, when it is closed

== Temporal plan ==
Spark SQL
   columns: day timestamp, most bigint
   +- aggregate clicks by windows of 1 h
      emits: once per window, when stream time is 0 s behind its end
      late: a row whose windows have closed: stream time is at or after their end and 0 s
      state: a partial state per open window
      strategy: exact, compiled, whole micro-batches at a time
      +- Spark SQL
         columns: __k0 string, __time timestamp, _l0 bigint, _l1 string, _l2 timestamp
         +- stream clicks
   +- aggregate hours by windows of 1 d
      emits: once per window, when stream time is 0 s behind its end
      late: a row whose windows have closed: stream time is at or after their end and 0 s
      state: a partial state per open window
      strategy: exact, compiled, whole micro-batches at a time
      +- Spark SQL
         columns: __time timestamp, __a0_0 bigint, _l0 string, _l1 timestamp, _l2 bigint
         +- aggregate clicks by windows of 1 h
            emits: once per window, when stream time is 0 s behind its end
            late: a row whose windows have closed: stream time is at or after their end and 0 s
            state: a partial state per open window
            strategy: exact, compiled, whole micro-batches at a time
            +- Spark SQL
               columns: __k0 string, __time timestamp, _l0 bigint, _l1 string, _l2 timestamp
               +- stream clicks

== __sqlx_agg1: input ==
SELECT k AS __k0, ts AS __time, `id` AS _l0, `k` AS _l1, `ts` AS _l2 FROM `clicks`

== __sqlx_agg1: input ==
SELECT k AS __k0, ts AS __time, `id` AS _l0, `k` AS _l1, `ts` AS _l2 FROM `clicks`

== __sqlx_agg2: input ==
WITH hours AS (SELECT __k0 AS `k`, __ws AS hour, __a0 AS n FROM __sqlx_agg1) SELECT hour AS __time, n AS __a0_0, `k` AS _l0, `hour` AS _l1, `n` AS _l2 FROM hours

== Spark SQL around the operators ==
WITH hours AS (SELECT __k0 AS `k`, __ws AS hour, __a0 AS n FROM __sqlx_agg1)
SELECT __ws AS day, __a0 AS most FROM __sqlx_agg2

== Notes ==
- GRACE PERIOD was not given: a row is late as soon as its window has ended.
====
# over an AS OF join: the join's options stand before GROUP BY, the query's own behind it
SELECT r.rate, count(*) AS n FROM clicks c JOIN rates r AS OF c.ts ON c.k = r.k GRACE PERIOD INTERVAL '1' MINUTE GROUP BY r.rate, window(c.ts, '1 hour') GRACE PERIOD INTERVAL '2' MINUTES EMIT FINAL
----
== Clauses as read ==
line 1: rates (as_of), time c.ts, on c.k = r.k, GRACE PERIOD
line 1: GRACE PERIOD 2 min
line 1: EMIT FINAL (no options): once per window, when it is closed

== Temporal plan ==
Spark SQL
   columns: rate double, n bigint
   +- aggregate clicks by windows of 1 h
      emits: once per window, when stream time is 2 min behind its end
      late: a row whose windows have closed: stream time is at or after their end and 2 min
      state: a partial state per open window
      strategy: exact, compiled, whole micro-batches at a time
      +- Spark SQL
         columns: __k0 double, __time timestamp, _l0 timestamp, _l1 double
         +- AS OF join (inner) with the versions of rates
            picks: the latest version at or before the row's time
            ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
            grace: 1 min
            history retention: 1 d
            +- Spark SQL
               columns: __k0 string, __as_of timestamp, _l0 timestamp
               +- stream clicks
            +- Spark SQL
               columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double
               +- versioned rates

== __sqlx_rel1: left input ==
SELECT c.k AS __k0, c.ts AS __as_of, `c`.`ts` AS _l0 FROM `clicks` c

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates` AS `rates`) AS `r`

== __sqlx_agg1: input ==
SELECT r.rate AS __k0, c.ts AS __time, `ts` AS _l0, `rate` AS _l1 FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `ts`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`

== Spark SQL around the operators ==
SELECT __k0 AS `rate`, __a0 AS n FROM __sqlx_agg1
====
# the changes of a versioned table: what comes out of order is sent, too
SELECT k, rate FROM rates WHERE rate > 1 EMIT CHANGES
----
== Clauses as read ==
line 1: EMIT CHANGES (no options): every update

== Temporal plan ==
Spark SQL
   columns: k string, rate double
   +- the changes of the versioned table rates
      keys: k
      out of order: sent, the current row stays
      history: 1 d
      +- Spark SQL
         columns: __k0 string, _l0 string, _l1 double, _l2 timestamp, _l3 bigint, _l4 timestamp
         +- versioned rates

== __sqlx_tab1: input ==
SELECT `k` AS __k0, `k` AS _l0, `rate` AS _l1, `at` AS _l2, `seq` AS _l3, `known` AS _l4 FROM `rates` AS `rates`

== Spark SQL around the operators ==
SELECT k, rate FROM (SELECT _l0 AS `k`, _l1 AS `rate`, _l2 AS `at`, _l3 AS `seq`, _l4 AS `known` FROM __sqlx_tab1) AS `rates` WHERE rate > 1
