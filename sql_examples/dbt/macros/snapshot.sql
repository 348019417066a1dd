{#-
  Snapshots into Parquet. dbt-spark's own materialization needs MERGE, and so Delta, Iceberg or Hudi; this one writes the
  table anew from its old rows and the changes. What changed is dbt's own business: strategies, staging query, columns.
  The new rows lie in a table of their own until they are all there: a run that dies loses no history.
-#}
{% materialization snapshot, adapter='spark' %}
  {%- set exists, target_relation = get_or_create_relation(
        database=none, schema=model.schema, identifier=model.get('alias', model.name), type='table') -%}
  {%- if not adapter.check_schema_exists(none, model.schema) -%}
    {% do create_schema(api.Relation.create(schema=model.schema)) %}
  {%- endif -%}
  {{ run_hooks(pre_hooks) }}
  {%- set strategy = strategy_dispatch(config.get('strategy'))(
        model, 'snapshotted_data', 'source_data', model.config, exists) -%}
  {%- if not exists -%}
    {% call statement('main') %}
      {{ create_table_as(False, target_relation, build_snapshot_table(strategy, model.compiled_code)) }}
    {% endcall %}
  {%- else -%}
    {%- set columns = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {% do adapter.valid_snapshot_target(target_relation, columns) %}
    {%- set staging = snapshot_staging(strategy, model.compiled_code, target_relation) -%}
    {{ write_snapshot(target_relation, staging, columns) }}
    {% do adapter.drop_relation(staging) %}
  {%- endif -%}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

{% macro snapshot_staging(strategy, sql, target_relation) %}
  {%- set staging = target_relation.incorporate(
        path={'identifier': target_relation.identifier ~ '__dbt_tmp'}, type='view') -%}
  {% call statement('staging') %}
    {{ create_view_as(staging, snapshot_staging_table(strategy, sql, target_relation)) }}
  {% endcall %}
  {{ return(staging) }}
{% endmacro %}

{% macro write_snapshot(target_relation, staging, columns) %}
  {%- set written = target_relation.incorporate(
        path={'identifier': target_relation.identifier ~ '__dbt_new'}, type='table') -%}
  {%- set names = adapter.get_columns_in_relation(target_relation) | map(attribute='name') | list -%}
  {% do adapter.drop_relation(written) %}
  {% call statement('changes') %}
    create table {{ written }} using parquet as
    select {% for name in names -%}
      {%- if name == columns.dbt_valid_to -%} coalesce(old.{{ name }}, new.{{ name }}) as {{ name }}
      {%- else -%} old.{{ name }} {%- endif -%}{{ ', ' if not loop.last }}
    {%- endfor %}
    from {{ target_relation }} as old
    left join (select * from {{ staging }} where dbt_change_type in ('update', 'delete')) as new
      on old.{{ columns.dbt_scd_id }} = new.{{ columns.dbt_scd_id }}
    union all
    select {{ names | join(', ') }} from {{ staging }} where dbt_change_type = 'insert'
  {% endcall %}
  {% call statement('main') %}
    insert overwrite table {{ target_relation }} select {{ names | join(', ') }} from {{ written }}
  {% endcall %}
  {% do adapter.drop_relation(written) %}
{% endmacro %}
