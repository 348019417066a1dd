{{ config(materialized='table') }}

select o.id, o.customer, o.currency, o.amount, o.ordered_at, r.rate, round(o.amount * r.rate, 2) as euros, t.tier
from {{ ref('orders_once') }} o
left join {{ ref('rates') }} r as of o.ordered_at on o.currency = r.currency
left join {{ ref('tiers') }} t as of o.ordered_at on o.customer = t.customer
