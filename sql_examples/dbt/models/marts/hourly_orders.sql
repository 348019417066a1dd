{{ config(materialized='table') }}

select window.start as hour, currency, count(*) as orders, sum(amount) as amount
from {{ ref('orders') }}
group by window(ordered_at, '1 hour'), currency
grace period interval {{ var('grace') }}
emit final
