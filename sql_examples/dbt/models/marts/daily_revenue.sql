{{ config(
    materialized='incremental',
    incremental_strategy='insert_overwrite',
    partition_by='day'
) }}

select tier, count(*) as orders, sum(euros) as euros, to_date(ordered_at) as day
from {{ ref('orders_in_euros') }}
{% if is_incremental() %}
where to_date(ordered_at) >= (select max(day) from {{ this }})
{% endif %}
group by all
