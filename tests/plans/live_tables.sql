# a join of two tables by their keys
SELECT r.k, r.rate, i.title FROM rates r LEFT JOIN items i ON r.k = i.k EMIT CHANGES
----
== Clauses as read ==
line 1: EMIT CHANGES (no options): every update

== Temporal plan ==
Spark SQL
   columns: k string, rate double, title string
   +- join of the tables rates and items; the result is an upsert table
      by: the keys of both
      keeps: rows of the left side without a match too
      state: the current rows of both sides
      +- Spark SQL
         columns: __k0 string, _l0 string, _l1 double
         +- the changes of the versioned table rates
            keys: k
            out of order: left out
            history: 1 d
            +- Spark SQL
               columns: __k0 string, _l0 string, _l1 double, _l2 timestamp, _l3 bigint, _l4 timestamp
               +- versioned rates
      +- Spark SQL
         columns: __k0 string, _r0 string
         +- the changes of the upsert table items
            keys: k
            +- Spark SQL
               columns: __k0 string, _l0 string, _l1 string, _l2 timestamp
               +- upsert items

== __sqlx_tab1: input ==
SELECT `k` AS __k0, `k` AS _l0, `rate` AS _l1, `at` AS _l2, `seq` AS _l3, `known` AS _l4 FROM `rates` AS `rates`

== __sqlx_tab2: input ==
SELECT `k` AS __k0, `k` AS _l0, `title` AS _l1, `at` AS _l2 FROM `items` AS `items`

== __sqlx_rel1: left input ==
SELECT r.k AS __k0, `r`.`k` AS _l0, `r`.`rate` AS _l1 FROM (SELECT _l0 AS `k`, _l1 AS `rate`, _l2 AS `at`, _l3 AS `seq`, _l4 AS `known` FROM __sqlx_tab1) AS `r`

== __sqlx_rel1: right input ==
SELECT i.k AS __k0, `i`.`title` AS _r0 FROM (SELECT * FROM (SELECT _l0 AS `k`, _l1 AS `title`, _l2 AS `at` FROM __sqlx_tab2) AS `i`) AS `i`

== Spark SQL around the operators ==
SELECT r.k, r.rate, i.title FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `k`, __sqlx_op1._l1 AS `rate`) AS `r` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `title`) AS `i`
====
# a join by a foreign key, as a changelog
SELECT p.k, p.region, i.title FROM prices p JOIN items i ON p.k = i.k EMIT CHANGES AS CHANGELOG
----
== Clauses as read ==
line 1: EMIT CHANGES (AS): every update

== Temporal plan ==
Spark SQL
   columns: k string, region string, title string
   +- join of the tables prices and items; the result is an upsert table
      by: a foreign key: an update of the right side changes every row that points to it
      keeps: rows with a match alone
      state: the current rows of both sides
      +- Spark SQL
         columns: __k0 string, _l0 string, _l1 string
         +- the changes of the versioned table prices
            keys: k, region
            out of order: left out
            history: 1 d
            +- Spark SQL
               columns: __k0 string, __k1 string, __deleted boolean, _l0 string, _l1 string, _l2 double, _l3 timestamp
               +- versioned prices
      +- Spark SQL
         columns: __k0 string, _r0 string
         +- the changes of the upsert table items
            keys: k
            +- Spark SQL
               columns: __k0 string, _l0 string, _l1 string, _l2 timestamp
               +- upsert items

== __sqlx_tab1: input ==
SELECT `k` AS __k0, `region` AS __k1, (price < 0) AS __deleted, `k` AS _l0, `region` AS _l1, `price` AS _l2, `at` AS _l3 FROM `prices` AS `prices`

== __sqlx_tab2: input ==
SELECT `k` AS __k0, `k` AS _l0, `title` AS _l1, `at` AS _l2 FROM `items` AS `items`

== __sqlx_rel1: left input ==
SELECT p.k AS __k0, `p`.`k` AS _l0, `p`.`region` AS _l1 FROM (SELECT _l0 AS `k`, _l1 AS `region`, _l2 AS `price`, _l3 AS `at` FROM __sqlx_tab1) AS `p`

== __sqlx_rel1: right input ==
SELECT i.k AS __k0, `i`.`title` AS _r0 FROM (SELECT * FROM (SELECT _l0 AS `k`, _l1 AS `title`, _l2 AS `at` FROM __sqlx_tab2) AS `i`) AS `i`

== Spark SQL around the operators ==
SELECT p.k, p.region, i.title FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `k`, __sqlx_op1._l1 AS `region`) AS `p` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `title`) AS `i`

== Notes ==
- `prices` keeps its history for 1 day: HISTORY RETENTION was not given.
====
# groups of a table: aggregates that are taken back, and one that needs all rows of a group
SELECT region, count(*) AS n, sum(price) AS total, max(price) AS dearest FROM prices GROUP BY region EMIT CHANGES
----
== Clauses as read ==
line 1: EMIT CHANGES (no options): every update

== Temporal plan ==
Spark SQL
   columns: region string, n bigint, total double, dearest double
   +- groups of the table prices; the result is an upsert table
      an update: leaves its old group, then enters its new one
      a group: is deleted with its last row
      state: what its aggregates have added up, from which a row is taken out again, and the greatest time of each group
      +- Spark SQL
         columns: __k0 string, __a1_0 double, __a2_0 double
         +- the changes of the versioned table prices
            keys: k, region
            out of order: left out
            history: 1 d
            +- Spark SQL
               columns: __k0 string, __k1 string, __deleted boolean, _l0 string, _l1 string, _l2 double, _l3 timestamp
               +- versioned prices

== __sqlx_tab1: input ==
SELECT `k` AS __k0, `region` AS __k1, (price < 0) AS __deleted, `k` AS _l0, `region` AS _l1, `price` AS _l2, `at` AS _l3 FROM `prices` AS `prices`

== __sqlx_agg1: input ==
SELECT region AS __k0, price AS __a1_0, price AS __a2_0 FROM (SELECT _l0 AS `k`, _l1 AS `region`, _l2 AS `price`, _l3 AS `at` FROM __sqlx_tab1) AS `prices`

== Spark SQL around the operators ==
SELECT __k0 AS `region`, __a0 AS n, __a1 AS total, __a2 AS dearest FROM __sqlx_agg1

== Notes ==
- `prices` keeps its history for 1 day: HISTORY RETENTION was not given.
====
# updates that wait per key
SELECT k, title FROM items EMIT EVERY INTERVAL 10 SECONDS PER KEY BUFFER MAX 100 ROWS WHEN FULL EMIT EARLY
----
== Clauses as read ==
line 1: EMIT EVERY (BUFFER MAX ROWS, WHEN FULL): one update a key every 10 s of event time

== Temporal plan ==
Spark SQL
   columns: k string, title string
   +- suppress: one update a key every 10 s of event time
      buffer: at most 100 rows a task, then the oldest leaves early
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
SELECT k, title FROM (SELECT _l0 AS `k`, _l1 AS `title`, _l2 AS `at` FROM __sqlx_tab1) AS `items` 

== Spark SQL around the operators ==
SELECT * FROM __sqlx_sup1
====
# results that late versions correct
SELECT c.id, r.rate FROM STREAM clicks c LEFT JOIN rates r AS OF c.ts ON c.k = r.k EMIT CORRECTIONS
----
== Clauses as read ==
line 1: rates (as_of), time c.ts, on c.k = r.k, no options
line 1: EMIT CORRECTIONS (no options): every update, and what late rows change of earlier results

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double
   +- AS OF join (left) with the versions of rates, corrected; the result is a table with a row for each row of the stream
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      history retention: 1 d
      corrects: results that a late version changes; stream rows are kept until the history retention refuses versions of their time
      +- Spark SQL
         columns: __k0 string, __as_of timestamp, _l0 bigint
         +- stream clicks
      +- Spark SQL
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double
         +- versioned rates

== __sqlx_rel1: left input ==
SELECT c.k AS __k0, c.ts AS __as_of, `c`.`id` AS _l0 FROM `clicks` c

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT c.id, r.rate FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
====
# rows that wait for a grace period, and go when nothing comes any more
SELECT c.id, r.rate FROM STREAM clicks c JOIN rates r AS OF c.ts ON c.k = r.k GRACE PERIOD INTERVAL 1 MINUTE IDLE TIMEOUT INTERVAL 5 MINUTES
----
== Clauses as read ==
line 1: rates (as_of), time c.ts, on c.k = r.k, GRACE PERIOD, IDLE TIMEOUT

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double
   +- AS OF join (inner) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      grace: 1 min
      idle timeout: 5 min on the wall clock, then what waits is answered
      history retention: 1 d
      +- Spark SQL
         columns: __k0 string, __as_of timestamp, _l0 bigint
         +- stream clicks
      +- Spark SQL
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double
         +- versioned rates

== __sqlx_rel1: left input ==
SELECT c.k AS __k0, c.ts AS __as_of, `c`.`id` AS _l0 FROM `clicks` c

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT c.id, r.rate FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
