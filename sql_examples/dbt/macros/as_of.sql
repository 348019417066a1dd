{#-
  An AS OF join as a call of the table function `as_of`: plain Spark SQL, which needs udtf.register(spark) and no parser
  of ours. Both sides go in as one table, told apart by __side; names of columns are plain.
    left, right      relations
    keys             columns that both have
    as_of, time      the left's time and the right's, inclusive
    left_columns, right_columns    what comes out; no name twice
    join             'inner' or 'left'
    tolerance_us     the greatest distance of a match in microseconds
-#}
{% macro as_of(left, right, keys, as_of, time, left_columns, right_columns, join='inner', tolerance_us=none) -%}
{%- set options = {'join': join, 'tolerance_us': tolerance_us, 'n_keys': keys | length,
                   'left_columns': left_columns, 'right_columns': right_columns} -%}
select * from as_of('{{ tojson(options) }}', table(
  select 'L' as __side, {{ as_of }} as __time, {% for key in keys %}{{ key }} as __k{{ loop.index0 }}, {% endfor %}
    {{ left_columns | join(', ') }}{% for column in right_columns %}, null as {{ column }}{% endfor %}
  from {{ left }}
  union all
  select 'R' as __side, {{ time }} as __time, {% for key in keys %}{{ key }} as __k{{ loop.index0 }}, {% endfor %}
    {% for column in left_columns %}null as {{ column }}, {% endfor %}{{ right_columns | join(', ') }}
  from {{ right }}
) partition by {% for key in keys %}__k{{ loop.index0 }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
