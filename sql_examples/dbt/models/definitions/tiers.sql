{{ config(materialized='versioned_table', keys='customer', timestamp_by='valid_from') }}

-- A dbt snapshot is a table with a history: here it can be joined AS OF.
select customer, tier, dbt_valid_from as valid_from
from {{ ref('customer_history') }}
