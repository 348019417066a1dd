{{ config(materialized='table', tags=['plain']) }}

-- The same as orders_once in plain Spark SQL: it runs on any session on which udtf.register(spark) was called.
select id, customer, currency, amount, ordered_at
from deduplicate(
  table(select * from {{ source('shop', 'order_events') }}) partition by id order by ordered_at,
  within => interval '10' minutes, by => 'id', on_time => 'ordered_at'
)
