{#- What a shop would write itself, elsewhere: orders as they are reported (one twice), and rates as they change.
    One file each: a stream reads files as they arrive, and of two that are written at once either may be first. -#}
{% macro load_sources() %}
  {% if execute and flags.WHICH in ('build', 'run', 'snapshot', 'seed') %}
    {% do run_query('create schema if not exists shop') %}
    {% do run_query("create table if not exists shop.order_events using parquet as select /*+ coalesce(1) */ * from values
      (1, 'ann', 'USD', 20.0D, timestamp '2026-03-02 08:30:00'),
      (2, 'bob', 'USD', 10.0D, timestamp '2026-03-02 09:15:00'),
      (2, 'bob', 'USD', 10.0D, timestamp '2026-03-02 09:16:30'),
      (3, 'ann', 'GBP', 40.0D, timestamp '2026-03-02 09:40:00'),
      (4, 'cid', 'USD', 30.0D, timestamp '2026-03-02 10:05:00'),
      (5, 'bob', 'CHF', 50.0D, timestamp '2026-03-03 07:00:00'),
      (6, 'ann', 'GBP', 60.0D, timestamp '2026-03-03 12:00:00')
      as t(id, customer, currency, amount, ordered_at)") %}
    {% do run_query("create table if not exists shop.rate_changes using parquet as select /*+ coalesce(1) */ * from values
      ('USD', 0.90D, timestamp '2026-03-02 08:00:00'),
      ('USD', 0.95D, timestamp '2026-03-02 09:00:00'),
      ('USD', 0.92D, timestamp '2026-03-02 10:00:00'),
      ('GBP', 1.20D, timestamp '2026-03-02 09:00:00'),
      ('GBP', 1.25D, timestamp '2026-03-03 09:00:00'),
      ('CHF', 1.10D, timestamp '2026-03-03 06:00:00')
      as t(currency, rate, changed_at)") %}
  {% endif %}
{% endmacro %}
