{{ config(materialized='versioned_table', keys='currency', timestamp_by='changed_at', retention='7 DAYS') }}

select currency, rate, changed_at
from {{ source('shop', 'rate_changes') }}
