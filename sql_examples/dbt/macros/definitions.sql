{#-
  materialized='stream', 'versioned_table' and 'upsert_table': a definition of ours over the model's query. No row is
  written; the definition is a view, so that dbt, the catalog and BI tools see it.
    keys            the columns that a row is known by
    timestamp_by    the event time, a column or an expression
    sequence_by     what orders rows of one event time
    retention       how far back live reads are exact: '7 DAYS'
-#}
{% materialization stream, adapter='spark' %}
  {{ return(define('stream')) }}
{% endmaterialization %}

{% materialization versioned_table, adapter='spark' %}
  {{ return(define('versioned table')) }}
{% endmaterialization %}

{% materialization upsert_table, adapter='spark' %}
  {{ return(define('upsert table')) }}
{% endmaterialization %}

{% macro define(kind) %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- if existing is not none and existing.type == 'table' -%}
    {% do adapter.drop_relation(existing) %}
  {%- endif -%}
  {{ run_hooks(pre_hooks) }}
  {% call statement('main') -%}
    create or replace {{ kind }} {{ target_relation }}{{ definition_clauses() }} as
    {{ sql }}
  {%- endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmacro %}

{% macro definition_clauses() %}
  {%- set keys = config.get('keys', []) -%}
  {%- if keys %} keys ({{ keys if keys is string else keys | join(', ') }}){% endif -%}
  {%- if config.get('timestamp_by') %} timestamp by {{ config.get('timestamp_by') }}{% endif -%}
  {%- if config.get('sequence_by') %} sequence by {{ config.get('sequence_by') }}{% endif -%}
  {%- if config.get('retention') %} history retention interval {{ config.get('retention') }}{% endif -%}
{% endmacro %}
