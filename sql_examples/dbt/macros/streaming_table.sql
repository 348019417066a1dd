{#-
  materialized='streaming_table': the model's query as a live stream into a table, exactly once.
  By default it reads what is there now and ends, so that the models behind it see its rows; the next run goes on where
  this one stopped. --full-refresh starts anew.
    trigger      'AVAILABLE NOW' (default), or 'EVERY INTERVAL 10 SECONDS': the stream runs on in the server
    checkpoint   where to go on from; by default beside the warehouse
    tasks        how many pieces the state has
-#}
{% materialization streaming_table, adapter='spark' %}
  {%- set existing = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set trigger = config.get('trigger', 'AVAILABLE NOW') -%}
  {%- if existing is not none and existing.type == 'view' -%}
    {% do adapter.drop_relation(existing) %}
  {%- endif -%}
  {{ run_hooks(pre_hooks) }}
  {% call statement('main') -%}
    create {{ 'or replace ' if should_full_refresh() }}streaming table {{ 'if not exists ' if not should_full_refresh() }}{{ target_relation }}
    {%- if config.get('file_format') %} using {{ config.get('file_format') }}{% endif -%}
    {%- if config.get('checkpoint') %} checkpoint '{{ config.get('checkpoint') }}'{% endif %} trigger ({{ trigger }})
    {%- if config.get('tasks') %} tasks {{ config.get('tasks') }}{% endif %} as
    {{ sql }}
  {%- endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
