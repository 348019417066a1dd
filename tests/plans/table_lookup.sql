# a stream and an upsert table: the row there is now
SELECT c.id, i.title FROM clicks c LEFT JOIN items i ON c.k = i.k AND i.title <> c.k
----
== Clauses as read ==
none of ours

== Temporal plan ==
Spark SQL
   columns: id bigint, title string
   +- lookup (left) of the current row of items
      +- Spark SQL
         columns: __k0 string, _l0 bigint, _l1 string
         +- stream clicks
      +- Spark SQL
         columns: __k0 string, _r0 string, r_is_there boolean
         +- upsert items

== __sqlx_rel1: left input ==
SELECT c.k AS __k0, `c`.`id` AS _l0, `c`.`k` AS _l1 FROM `clicks` c

== __sqlx_rel1: right input ==
SELECT i.k AS __k0, `i`.`title` AS _r0, true AS r_is_there FROM (SELECT `k`, `title`, `at`, (at) AS __time FROM `items` AS `items`) AS `i`

== Spark SQL around the operators ==
SELECT c.id, i.title FROM (SELECT __sqlx_op1._l0, __sqlx_op1._l1, CASE WHEN __sqlx_op1.__sqlx_ok THEN __sqlx_op1._r0 END AS _r0, CASE WHEN __sqlx_op1.__sqlx_ok THEN __sqlx_op1.r_is_there END AS r_is_there FROM (SELECT __sqlx_op1.*, (__sqlx_op1.r_is_there IS NOT NULL AND coalesce(((i.title <> c.k)), false)) AS __sqlx_ok FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `k`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `title`) AS `i`) AS __sqlx_op1) AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `k`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `title`) AS `i`
====
# both kinds of tables behind one stream
SELECT c.id, r.rate, i.title
FROM clicks c JOIN rates r AS OF c.ts ON c.k = r.k GRACE PERIOD INTERVAL 5 MINUTES JOIN items i ON c.k = i.k
----
== Clauses as read ==
line 2: rates (as_of), time c.ts, on c.k = r.k, GRACE PERIOD

== Temporal plan ==
Spark SQL
   columns: id bigint, rate double, title string
   +- lookup (inner) of the current row of items
      +- Spark SQL
         columns: __k0 string, _l0 bigint, _l1 double
         +- AS OF join (inner) with the versions of rates
            picks: the latest version at or before the row's time
            ties: the last by TIES BY or SEQUENCE BY, then arrival, wins
            grace: 5 min
            history retention: 1 d
            +- Spark SQL
               columns: __k0 string, __as_of timestamp, _l0 bigint, _l1 string
               +- stream clicks
            +- Spark SQL
               columns: __k0 string, __time timestamp, __tie0 timestamp, _r0 string, _r1 double
               +- versioned rates
      +- Spark SQL
         columns: __k0 string, _r0 string
         +- upsert items

== __sqlx_rel1: left input ==
SELECT c.k AS __k0, c.ts AS __as_of, `c`.`id` AS _l0, `c`.`k` AS _l1 FROM `clicks` c

== __sqlx_rel1: right input ==
SELECT r.k AS __k0, `r`.__time AS __time, `r`.__seq AS __tie0, `r`.`k` AS _r0, `r`.`rate` AS _r1 FROM (SELECT `k`, `rate`, `at`, `seq`, `known`, (at) AS __time, (known) AS __seq FROM `rates` AS `rates`) AS `r`

== __sqlx_rel2: left input ==
SELECT c.k AS __k0, `c`.`id` AS _l0, `r`.`rate` AS _l1 FROM __sqlx_rel1 AS __sqlx_op1 CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`, __sqlx_op1._l1 AS `k`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `k`, __sqlx_op1._r1 AS `rate`) AS `r`

== __sqlx_rel2: right input ==
SELECT i.k AS __k0, `i`.`title` AS _r0 FROM (SELECT `k`, `title`, `at`, (at) AS __time FROM `items` AS `items`) AS `i`

== Spark SQL around the operators ==
SELECT c.id, r.rate, i.title
FROM __sqlx_rel2 AS __sqlx_op2 CROSS JOIN LATERAL (SELECT __sqlx_op2._l0 AS `id`) AS `c` CROSS JOIN LATERAL (SELECT __sqlx_op2._l1 AS `rate`) AS `r` CROSS JOIN LATERAL (SELECT __sqlx_op2._r0 AS `title`) AS `i`
