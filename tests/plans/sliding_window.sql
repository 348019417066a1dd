# a sliding window of a batch query: every row counts, the operator gives the windows
SELECT k, sliding_window.start AS ws, count(*) AS n, sum(n) AS total FROM orders GROUP BY k, sliding_window(ts, '10 minutes') HAVING count(*) > 1 ORDER BY ws
----
== Clauses as read ==
none of ours

== Temporal plan ==
Spark SQL
   columns: k string, ws timestamp, n bigint, total bigint
   +- aggregate orders by sliding windows of 10 min, both ends included
      emits: once per window: every row is there, and nothing is late
      runs: whole tasks: rows shuffled by key, sorted by time, the members of each window folded, compiled
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __a1_0 int

== __sqlx_agg1: input ==
SELECT k AS __k0, ts AS __time, n AS __a1_0 FROM orders

== Spark SQL around the operators ==
SELECT __k0 AS `k`, __ws AS ws, __a0 AS n, __a1 AS total FROM __sqlx_agg1 WHERE __a0 > 1 ORDER BY ws
====
# an aggregate without a fold is computed by Spark from the members; clauses of streams play no part
SELECT k, max(name) FROM orders GROUP BY k, sliding_window(ts, '1 hour') GRACE PERIOD INTERVAL '1' MINUTE EMIT FINAL
----
== Clauses as read ==
line 1: GRACE PERIOD 1 min
line 1: EMIT FINAL (no options): once per window, when it is closed

== Temporal plan ==
Spark SQL
   columns: k string, max(name) string
   +- aggregate orders by sliding windows of 1 h, both ends included
      emits: once per window: every row is there, and nothing is late
      runs: Spark aggregates the members of each window, which whole tasks list, for max as string
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __a0_0 string

== __sqlx_agg1: input ==
SELECT k AS __k0, ts AS __time, name AS __a0_0 FROM orders

== Spark SQL around the operators ==
SELECT __k0 AS `k`, __a0 AS `max(name)` FROM __sqlx_agg1

== Notes ==
- GRACE PERIOD plays no part in a batch query: every row is there.
