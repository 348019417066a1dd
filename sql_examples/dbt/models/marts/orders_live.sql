{{ config(materialized='streaming_table') }}

select o.id, o.ordered_at, r.rate, round(o.amount * r.rate, 2) as euros
from {{ ref('orders') }} o
left join {{ ref('rates') }} r as of o.ordered_at on o.currency = r.currency
