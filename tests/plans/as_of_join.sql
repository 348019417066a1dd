# a versioned table, by its key
SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k
----
== Clauses as read ==
line 1: rates (as_of), time o.ts, on o.k = r.k, no options

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double
   +- AS OF join (inner) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double

== __sqlx_rel1: left input ==
SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT o.id, r.rate FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
====
# all options; keys are not shipped, only what the query reads
SELECT o.id, r.rate, why
FROM orders o LEFT JOIN rates AS OF o.ts EXCLUSIVE r ON upper(o.name) = r.k
  TOLERANCE INTERVAL 1 HOUR DIRECTION NEAREST TIES BY r.seq DESC KNOWN AS OF o.day WITH REASON AS why
----
== Clauses as read ==
line 2: rates (as_of), time o.ts, on upper(o.name) = r.k, TOLERANCE, DIRECTION, TIES BY, KNOWN AS OF, WITH REASON

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double, why string
   +- AS OF join (left) with the versions of rates
      picks: the version nearest to the row's time but not at it, the earlier one on a tie
      tolerance: 1 h
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      known as of: only versions that were known at that time take part
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, __known timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __seq timestamp, __tie0 bigint, __tie1 timestamp, _r0 double

== __sqlx_rel1: left input ==
SELECT upper(o.name) AS __k0, o.ts AS __as_of, CAST(o.day AS timestamp) AS __known, `o`.`id` AS _l0 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __seq, r.seq AS __tie0, `r`.__seq AS __tie1, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT o.id, r.rate, why
FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`, __sqlx_op1.__reason AS `why`) AS `r`
====
# a further condition unmatches the rows of a left join
SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k AND r.rate > o.n
----
== Clauses as read ==
line 1: rates (as_of), time o.ts, on o.k = r.k AND r.rate > o.n, no options

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double
   +- AS OF join (left) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint, _l1 int
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double

== __sqlx_rel1: left input ==
SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0, `o`.`n` AS _l1 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT o.id, r.rate FROM (SELECT __sqlx_op1._l0, __sqlx_op1._l1, CASE WHEN __sqlx_op1.__sqlx_ok THEN __sqlx_op1._r0 END AS _r0, CASE WHEN NOT __sqlx_op1.__sqlx_ok THEN coalesce(__sqlx_op1.__reason, 'condition') END AS __reason FROM (SELECT __sqlx_op1.*, (__sqlx_op1.__reason IS NULL AND coalesce(((r.rate > o.n)), false)) AS __sqlx_ok FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `n`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`) AS __sqlx_op1) AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `n`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
====
# and drops those of an inner join
SELECT o.id FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k AND r.rate > o.n
----
== Clauses as read ==
line 1: rates (as_of), time o.ts, on o.k = r.k AND r.rate > o.n, no options

== Temporal plan ==
Spark SQL
   columns: id bigint
   +- AS OF join (inner) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint, _l1 int
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double

== __sqlx_rel1: left input ==
SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0, `o`.`n` AS _l1 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT o.id FROM (SELECT __sqlx_op1.* FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `n`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r` WHERE (r.rate > o.n)) AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `n`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
====
# USING shows its column once, a star without what is hidden
SELECT *, k FROM orders o LEFT JOIN rates r AS OF o.ts USING (k) WHERE k > 'a'
----
== Clauses as read ==
line 1: rates (as_of), time o.ts, using k, no options

== Temporal plan ==
Spark SQL
   columns: k string, id bigint, ts timestamp, day date, n int, name string, rate double, at timestamp, seq bigint, known timestamp, k string
   +- AS OF join (left) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint, _l1 string, _l2 timestamp, _l3 date, _l4 int, _l5 string
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 string, _r1 double, _r2 timestamp, _r3 bigint, _r4 timestamp

== __sqlx_rel1: left input ==
SELECT `o`.`k` AS __k0, o.ts AS __as_of, `o`.`id` AS _l0, `o`.`k` AS _l1, `o`.`ts` AS _l2, `o`.`day` AS _l3, `o`.`n` AS _l4, `o`.`name` AS _l5 FROM orders o

== __sqlx_rel1: right input ==
SELECT `r`.`k` AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`k` AS _r0, `r`.`rate` AS _r1, `r`.`at` AS _r2, `r`.`seq` AS _r3, `r`.`known` AS _r4 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT `o`.`k`, * EXCEPT (__sqlx_op1._l0, __sqlx_op1._l1, __sqlx_op1._l2, __sqlx_op1._l3, __sqlx_op1._l4, __sqlx_op1._l5, __sqlx_op1._r0, __sqlx_op1._r1, __sqlx_op1._r2, __sqlx_op1._r3, __sqlx_op1._r4, `r`.`k`, `o`.`k`), `o`.`k` FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `k`, __sqlx_op1._l2 AS `ts`, __sqlx_op1._l3 AS `day`, __sqlx_op1._l4 AS `n`, __sqlx_op1._l5 AS `name`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `k`, __sqlx_op1._r1 AS `rate`, __sqlx_op1._r2 AS `at`, __sqlx_op1._r3 AS `seq`, __sqlx_op1._r4 AS `known`) AS `r` WHERE `o`.`k` > 'a'
====
# two joins, then a plain one
SELECT o.id, r.rate, p.price, i.title
FROM orders o
  JOIN rates r AS OF o.ts ON o.k = r.k
  LEFT JOIN prices p AS OF o.ts ON o.k = p.k AND p.region = o.name
  JOIN items i ON i.k = o.k
----
== Clauses as read ==
line 3: rates (as_of), time o.ts, on o.k = r.k, no options
line 4: prices (as_of), time o.ts, on o.k = p.k AND p.region = o.name, no options

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double, price double, title string
   +- AS OF join (left) with the versions of prices
      picks: the latest version at or before the row's time
      ties: the last to arrive wins
      +- Spark SQL
         columns: __k0 string, __k1 string, __as_of timestamp, _l0 bigint, _l1 string, _l2 string, _l3 double
         +- AS OF join (inner) with the versions of rates
            picks: the latest version at or before the row's time
            ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
            +- Spark SQL (no operator below)
               columns: __k0 string, __as_of timestamp, _l0 bigint, _l1 string, _l2 timestamp, _l3 string
            +- Spark SQL (no operator below)
               columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 string, _r1 double
      +- Spark SQL (no operator below)
         columns: __k0 string, __k1 string, __time timestamp, __arrival bigint, __deleted boolean, _r0 string, _r1 double

== __sqlx_rel1: left input ==
SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0, `o`.`k` AS _l1, `o`.`ts` AS _l2, `o`.`name` AS _l3 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`k` AS _r0, `r`.`rate` AS _r1 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== __sqlx_rel2: left input ==
SELECT o.k AS __k0, o.name AS __k1, o.ts AS __as_of, `o`.`id` AS _l0, `o`.`k` AS _l1, `r`.`k` AS _l2, `r`.`rate` AS _l3 FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `k`, __sqlx_op1._l2 AS `ts`, __sqlx_op1._l3 AS `name`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `k`, __sqlx_op1._r1 AS `rate`) AS `r`

== __sqlx_rel2: right input ==
SELECT p.k AS __k0, p.region AS __k1, `p`.__time AS __time, `p`.__order0 AS __arrival, `p`.__deleted AS __deleted, `p`.`k` AS _r0, `p`.`price` AS _r1 FROM (SELECT `k`, `region`, `price`, `at`, (at) AS __time, coalesce(price < 0, false) AS __deleted, row_number() OVER () AS __order0 FROM `prices__log` AS `prices`) AS `p`

== Spark SQL around the operators ==
SELECT o.id, r.rate, p.price, i.title
FROM __sqlx_rel2 AS __sqlx_op2 CROSS JOIN LATERAL (SELECT __sqlx_op2._l0 AS `id`, __sqlx_op2._l1 AS `k`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op2._l2 AS `k`, __sqlx_op2._l3 AS `rate`) AS `r` CROSS JOIN LATERAL (SELECT __sqlx_op2._r0 AS `k`, __sqlx_op2._r1 AS `price`) AS `p`
  JOIN items i ON i.k = o.k
====
# any relation by MATCH_CONDITION, its column names from its alias
SELECT o.id, q.price FROM orders o ASOF LEFT JOIN quotes AS q (k, price, t, d) MATCH_CONDITION (q.t <= o.ts) ON o.k = q.k
----
== Clauses as read ==
line 1: quotes (match_condition), time q.t <= o.ts, on o.k = q.k, no options

== Temporal plan ==
Spark SQL
   columns: id bigint, price double
   +- AS OF join (left) with the versions of q
      picks: the latest version at or before the row's time
      ties: the last to arrive wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __arrival bigint, _r0 double

== __sqlx_rel1: left input ==
SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0 FROM orders o

== __sqlx_rel1: right input ==
SELECT q.k AS __k0, q.t AS __time, `q`.__order0 AS __arrival, `q`.`price` AS _r0 FROM (SELECT `k` AS `k`, `bid` AS `price`, `ts` AS `t`, `day` AS `d`, __order0 FROM (SELECT *, row_number() OVER () AS __order0 FROM quotes) AS __sqlx_h) AS `q`

== Spark SQL around the operators ==
SELECT o.id, q.price FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `price`) AS `q`
====
# what DuckDB and ClickHouse write
SELECT orders.id, bid FROM orders ASOF JOIN quotes ON orders.k = quotes.k AND orders.ts > quotes.ts
----
== Clauses as read ==
line 1: quotes (asof_alias), on orders.k = quotes.k AND orders.ts > quotes.ts, no options

== Temporal plan ==
Spark SQL
   columns: id bigint, bid double
   +- AS OF join (inner) with the versions of quotes
      picks: the latest version before the row's time
      ties: the last to arrive wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __arrival bigint, _r0 double

== __sqlx_rel1: left input ==
SELECT orders.k AS __k0, orders.ts AS __as_of, `orders`.`id` AS _l0 FROM orders

== __sqlx_rel1: right input ==
SELECT quotes.k AS __k0, quotes.ts AS __time, `quotes`.__order0 AS __arrival, `quotes`.`bid` AS _r0 FROM (SELECT *, row_number() OVER () AS __order0 FROM quotes) AS `quotes`

== Spark SQL around the operators ==
SELECT orders.id, bid FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `orders` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `bid`) AS `quotes`
====
# projections and filters over a versioned table: the filter is tested on the version that was picked
WITH c (id, price) AS (SELECT k, rate * 2 FROM rates WHERE rate > 0)
SELECT o.id, c.price FROM orders o JOIN c AS OF o.ts ON o.k = c.id
----
== Clauses as read ==
line 2: c (as_of), time o.ts, on o.k = c.id, no options

== Temporal plan ==
Spark SQL
   columns: id bigint, price double
   +- AS OF join (inner) with the versions of c
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp, __pass boolean, _r0 double

== __sqlx_rel1: left input ==
WITH c (id, price) AS (SELECT k, rate * 2 FROM rates WHERE rate > 0) SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0 FROM orders o

== __sqlx_rel1: right input ==
SELECT c.id AS __k0, `c`.__time AS __time, `c`.__seq AS __tie0, `c`.__pass AS __pass, `c`.`price` AS _r0 FROM (SELECT `k` AS `id`, `(rate * 2)` AS `price`, __time, __seq, __pass FROM (SELECT k, rate * 2, rates.__time AS __time, rates.__seq AS __seq, coalesce((rate > 0), false) AS __pass FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS rates) AS __sqlx_h) AS `c`

== Spark SQL around the operators ==
WITH c (id, price) AS (SELECT k, rate * 2 FROM rates WHERE rate > 0)
SELECT o.id, c.price FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `price`) AS `c`
====
# a constant key, FOR SYSTEM_TIME AS OF, nothing read of the right side
SELECT count(*) FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON r.k = 'EUR'
----
== Clauses as read ==
line 1: rates (system_time), time o.ts, on r.k = 'EUR', no options

== Temporal plan ==
Spark SQL
   columns: count_star() bigint
   +- AS OF join (inner) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp

== __sqlx_rel1: left input ==
SELECT 'EUR' AS __k0, o.ts AS __as_of, `o`.`id` AS _l0 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT count(*) FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o`
====
# in a subquery; the text around it stays as it was written
INSERT INTO sink   -- as it was
SELECT  *  FROM fills f WHERE EXISTS (SELECT 1 FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k WHERE o.id = f.id)
----
== Clauses as read ==
line 2: rates (as_of), time o.ts, on o.k = r.k, no options

== Temporal plan ==
Spark SQL
   +- AS OF join (inner) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp

== __sqlx_rel1: left input ==
SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
INSERT INTO sink   -- as it was
SELECT  *  FROM fills f WHERE EXISTS (SELECT 1 FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o` WHERE o.id = f.id)
====
# LATERAL before the join looks back over the comma
SELECT o.id FROM orders o, LATERAL (SELECT upper(o.k) AS u) l JOIN rates r AS OF o.ts ON l.u = r.k
----
== Clauses as read ==
line 1: rates (as_of), time o.ts, on l.u = r.k, no options

== Temporal plan ==
Spark SQL
   columns: id bigint
   +- AS OF join (inner) with the versions of rates
      picks: the latest version at or before the row's time
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp

== __sqlx_rel1: left input ==
SELECT l.u AS __k0, o.ts AS __as_of, `o`.`id` AS _l0 FROM orders o, LATERAL (SELECT upper(o.k) AS u) l

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT o.id FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o`
====
# the name before FOR SYSTEM_TIME AS OF, an option after the condition
SELECT o.id, r.rate FROM orders o LEFT JOIN rates AS r FOR SYSTEM_TIME AS OF o.ts ON o.k = r.k TOLERANCE INTERVAL 1 HOUR
----
== Clauses as read ==
line 1: rates (system_time), time o.ts, on o.k = r.k, TOLERANCE

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double
   +- AS OF join (left) with the versions of rates
      picks: the latest version at or before the row's time
      tolerance: 1 h
      ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
      +- Spark SQL (no operator below)
         columns: __k0 string, __as_of timestamp, _l0 bigint
      +- Spark SQL (no operator below)
         columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 double

== __sqlx_rel1: left input ==
SELECT o.k AS __k0, o.ts AS __as_of, `o`.`id` AS _l0 FROM orders o

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`rate` AS _r0 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates__log` AS `rates`) AS `r`

== Spark SQL around the operators ==
SELECT o.id, r.rate FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
