{{ config(materialized='view') }}

select *
from {{ ref('orders') }} deduplicate within interval 10 minutes by (id) on time ordered_at
