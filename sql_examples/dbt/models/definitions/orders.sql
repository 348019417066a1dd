{{ config(materialized='stream', timestamp_by='ordered_at') }}

select id, customer, currency, amount, ordered_at
from {{ source('shop', 'order_events') }}
