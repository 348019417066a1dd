{{ config(materialized='table', tags=['plain']) }}

-- The AS OF join in plain Spark SQL; macros/as_of.sql writes the call of the table function.
{{ as_of(
    left=source('shop', 'order_events'), right=source('shop', 'rate_changes'), keys=['currency'],
    as_of='ordered_at', time='changed_at', left_columns=['id', 'ordered_at'], right_columns=['rate'], join='left'
) }}
