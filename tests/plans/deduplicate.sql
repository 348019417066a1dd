# a stream of ours knows its time; only the columns that are read travel
SELECT c.id FROM clicks c DEDUPLICATE WITHIN INTERVAL '10' MINUTES BY (c.k)
----
== Clauses as read ==
line 1: clicks c (deduplicate) within 10 min, by c.k, no options

== Temporal plan ==
Spark SQL
   columns: id bigint
   +- deduplicate c, the first of rows within 10 min
      late rows: forwarded
      time: of the clause or of the stream
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __arrival0 bigint, _l0 bigint

== __sqlx_dedup1: input ==
SELECT c.k AS __k0, `c`.__time AS __time, `c`.__arrival0 AS __arrival0, `c`.`id` AS _l0 FROM (SELECT `id`, `k`, `ts`, (ts) AS __time, row_number() OVER () AS __arrival0 FROM `clicks__log` AS `clicks`) AS `c`

== Spark SQL around the operators ==
SELECT c.id FROM (SELECT _l0 AS `id` FROM __sqlx_dedup1) AS `c`
====
# a plain relation with all options, under an alias of its own
SELECT d.* FROM orders DEDUPLICATE WITHIN INTERVAL 2 HOURS BY (k, lower(name)) ON TIME day KEEP LAST LATE TO late_orders AS d
----
== Clauses as read ==
line 1: orders (deduplicate) within 2 h, by k, lower(name), time day, ON TIME, KEEP, LATE

== Temporal plan ==
Spark SQL
   columns: id bigint, k string, ts timestamp, day date, n int, name string
   +- deduplicate orders, the last of rows within 2 h
      late rows: kept in late_orders
      time: of the clause or of the stream
      +- Spark SQL (no operator below)
         columns: __k0 string, __k1 string, __time timestamp_ntz, __arrival0 bigint, _l0 bigint, _l1 string, _l2 timestamp, _l3 date, _l4 int, _l5 string

== __sqlx_dedup1: input ==
SELECT k AS __k0, lower(name) AS __k1, CAST(day AS TIMESTAMP_NTZ) AS __time, `orders`.__arrival0 AS __arrival0, `orders`.`id` AS _l0, `orders`.`k` AS _l1, `orders`.`ts` AS _l2, `orders`.`day` AS _l3, `orders`.`n` AS _l4, `orders`.`name` AS _l5 FROM (SELECT `orders`.*, row_number() OVER () AS __arrival0 FROM orders) AS `orders`

== Spark SQL around the operators ==
SELECT d.* FROM (SELECT _l0 AS `id`, _l1 AS `k`, _l2 AS `ts`, _l3 AS `day`, _l4 AS `n`, _l5 AS `name` FROM __sqlx_dedup1) AS d

== Notes ==
- LATE TO in a batch query keeps late rows out of the result, and writes them nowhere.
====
# as a pipe operator behind others, twice
FROM orders o |> WHERE n > 1 |> DEDUPLICATE WITHIN INTERVAL 1 DAY BY (o.k) ON TIME ts |> DEDUPLICATE WITHIN INTERVAL 0 SECONDS BY (n) ON TIME ts |> SELECT id
----
== Clauses as read ==
line 1: the query (deduplicate) within 1 d, by o.k, time ts, ON TIME
line 1: the query (deduplicate) within 0 s, by n, time ts, ON TIME

== Temporal plan ==
Spark SQL
   columns: id bigint
   +- deduplicate o, the first of rows within 0 s
      late rows: forwarded
      time: of the clause or of the stream
      +- Spark SQL
         columns: __k0 int, __time timestamp, _l0 bigint, _l1 string, _l2 timestamp, _l3 date, _l4 int, _l5 string
         +- deduplicate o, the first of rows within 1 d
            late rows: forwarded
            time: of the clause or of the stream
            +- Spark SQL (no operator below)
               columns: __k0 string, __time timestamp, _l0 bigint, _l1 string, _l2 timestamp, _l3 date, _l4 int, _l5 string

== __sqlx_dedup1: input ==
SELECT o.k AS __k0, ts AS __time, `o`.`id` AS _l0, `o`.`k` AS _l1, `o`.`ts` AS _l2, `o`.`day` AS _l3, `o`.`n` AS _l4, `o`.`name` AS _l5 FROM (FROM orders o |> WHERE n > 1) AS `o`

== __sqlx_dedup2: input ==
SELECT n AS __k0, ts AS __time, `o`.`id` AS _l0, `o`.`k` AS _l1, `o`.`ts` AS _l2, `o`.`day` AS _l3, `o`.`n` AS _l4, `o`.`name` AS _l5 FROM (FROM (SELECT _l0 AS `id`, _l1 AS `k`, _l2 AS `ts`, _l3 AS `day`, _l4 AS `n`, _l5 AS `name` FROM __sqlx_dedup1) AS `o`) AS `o`

== Spark SQL around the operators ==
FROM (SELECT _l0 AS `id`, _l1 AS `k`, _l2 AS `ts`, _l3 AS `day`, _l4 AS `n`, _l5 AS `name` FROM __sqlx_dedup2) AS `o` |> SELECT id
====
# below an AS OF join
SELECT c.id, r.rate FROM clicks DEDUPLICATE WITHIN INTERVAL '10' MINUTES BY (id) c JOIN rates r AS OF c.ts ON c.k = r.k
----
== Clauses as read ==
line 1: clicks (deduplicate) within 10 min, by id, no options
line 1: rates (as_of), time c.ts, on c.k = r.k, no options

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double
   +- AS OF join (inner) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL
         columns: __k0 string, __as_of timestamp, _l0 bigint
         +- deduplicate clicks, the first of rows within 10 min
            late rows: forwarded
            time: of the clause or of the stream
            +- Spark SQL (no operator below)
               columns: __k0 bigint, __time timestamp, __arrival0 bigint, _l0 bigint, _l1 string, _l2 timestamp
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double

== __sqlx_dedup1: input ==
SELECT id AS __k0, `clicks`.__time AS __time, `clicks`.__arrival0 AS __arrival0, `clicks`.`id` AS _l0, `clicks`.`k` AS _l1, `clicks`.`ts` AS _l2 FROM (SELECT `id`, `k`, `ts`, (ts) AS __time, row_number() OVER () AS __arrival0 FROM `clicks__log` AS `clicks`) AS `clicks`

== __sqlx_rel1: left input ==
SELECT c.k AS __k0, c.ts AS __as_of, `c`.`id` AS _l0 FROM (SELECT _l0 AS `id`, _l1 AS `k`, _l2 AS `ts` FROM __sqlx_dedup1) c

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT c.id, r.rate FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
