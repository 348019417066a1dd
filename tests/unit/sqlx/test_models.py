"""A folder of models: what is read, what is refused, which models run and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlx.jinja import RenderError
from sqlx.models.graph import ordered, selected
from sqlx.models.project import Model, read_models
from sqlx.models.statements import Query, definition, query_of, streaming_table, view

STREAMING = "{{ config(materialized='streaming_table', tasks=4) }}"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / (name if "." in name else f"{name}.sql")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def read(folder: Path, **files: str) -> dict[str, Model]:
    write(folder, files)
    return {model.name: model for model in read_models(folder, {})}


def refused(folder: Path, files: dict[str, str]) -> str:
    write(folder, files)
    with pytest.raises(RenderError) as found:
        ordered(read_models(folder, {}))
    return str(found.value)


def models(**refs: str) -> list[Model]:
    return [Model(name, Path(f"{name}.sql"), name, refs=tuple(found.split())) for name, found in refs.items()]


def names(found: list[Model]) -> list[str]:
    return [model.name for model in found]


def test_a_file_is_a_view_that_others_refer_to(tmp_path: Path) -> None:
    found = read(tmp_path, report="SELECT * FROM {{ ref('base') }}", base="SELECT 1 AS a")
    assert found["report"].text == "SELECT * FROM base"
    assert found["report"].refs == ("base",)
    assert found["base"].materialized == "view"


def test_schema_and_alias_are_what_a_reference_becomes(tmp_path: Path) -> None:
    config = "{{ config(schema='mart', alias='daily') }}"
    found = read(tmp_path, base=f"{config}SELECT '{{{{ this }}}}'", report="FROM {{ ref('base') }}")
    assert (found["report"].text, found["base"].text) == ("FROM mart.daily", "SELECT 'mart.daily'")


def test_an_ephemeral_model_is_in_no_schema(tmp_path: Path) -> None:
    config = "{{ config(schema='mart', materialized='ephemeral') }}"
    assert read(tmp_path, base=f"{config}SELECT 1", report="FROM {{ ref('base') }}")["report"].text == "FROM base"


def test_an_incremental_model_is_rendered_for_both_runs(tmp_path: Path) -> None:
    text = "{{ config(materialized='incremental') }}SELECT 1{% if is_incremental() %} FROM {{ ref('b') }}{% endif %}"
    model = read(tmp_path, a=text, b="SELECT 1")["a"]
    assert (model.text, model.again, model.refs) == ("SELECT 1", "SELECT 1 FROM b", ("b",))


def test_a_dbt_project_says_where_models_lie_and_what_holds_for_them(tmp_path: Path) -> None:
    project = """
name: shop
model-paths: [models]
vars: {day: monday, shop: {day: friday}}
models:
  shop:
    +tags: all
    marts: {+materialized: table}
"""
    write(tmp_path, {"dbt_project.yml": project, "other.sql": "not a model", "tests/t.sql": "neither"})
    write(tmp_path, {"models/marts/m.sql": "SELECT '{{ var('day') }}'", "models/v.sql": "SELECT 1"})
    found = {model.name: model for model in read_models(tmp_path, {})}
    assert {name: model.materialized for name, model in found.items()} == {"m": "table", "v": "view"}
    assert (found["m"].text, found["m"].tags) == ("SELECT 'friday'", ("all",))
    assert read_models(tmp_path, {"day": "sunday"})[0].text == "SELECT 'sunday'"


def test_the_configuration_of_a_file_wins_over_yaml_and_yaml_over_folders(tmp_path: Path) -> None:
    write(tmp_path, {"dbt_project.yml": "name: p\nmodels: {p: {+materialized: table, +tags: x}}"})
    write(tmp_path, {"models/s.yml": "models: [{name: a, config: {tags: y}}, {name: b, config: {tags: y}}]"})
    write(tmp_path, {"models/a.sql": "{{ config(tags='z') }} SELECT 1", "models/b.sql": "SELECT 1"})
    found = {model.name: (model.materialized, model.tags) for model in read_models(tmp_path, {})}
    assert found == {"a": ("table", ("z",)), "b": ("table", ("y",))}


def test_sources_are_what_yaml_says(tmp_path: Path) -> None:
    yaml = (
        "sources: [{name: shop, schema: \"{{ var('s', 'raw') }}\", tables: [{name: o, identifier: orders}, {name: r}]}]"
    )
    text = "FROM {{ source('shop', 'o') }}, {{ source('shop', 'r') }}, {{ source('else', 't') }}"
    found = read(tmp_path, **{"sources.yml": yaml, "a": text})
    assert found["a"].text == "FROM raw.orders, raw.r, else.t"


def test_macros_of_the_folder_are_known_and_those_with_tags_of_dbt_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {"macros/m.sql": "{% macro twice(x) %}2 * {{ x }}{% endmacro %}"})
    write(tmp_path, {"macros/dbt.sql": "{% materialization x, adapter='spark' %}{% endmaterialization %}"})
    assert read(tmp_path, a="SELECT {{ twice('n') }}")["a"].text == "SELECT 2 * n"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a": "SELECT 1\nFROM {{ ref('bse') }}", "base": "SELECT 1"},
         ["a.sql, line 2: ref('bse'): there is no model of that name. Did you mean `base`?",
          "LINE 2: FROM {{ ref('bse') }}\n                     ^^^"]),
        ({"a": "{{ source('s', 'x') }}", "s.yml": "sources: [{name: s, tables: [{name: y}]}]"},
         ["a.sql, line 1: source('s', 'x'): the source has no table of that name. There are: `y`."]),
        ({"a": "SELECT 1", "b": "SELECT {{ 1 / 0 }}"}, ["b.sql, line 1: division by zero\nLINE 1: SELECT {{ 1 / 0 }}"]),
        ({"a": "SELECT {{ ref() }}"}, ["a.sql, line 1: "]),
        ({"a": "SELECT 1\n{% if %}"}, ["a.sql, line 2: Expected an expression", "LINE 2: {% if %}\n        ^^^^^^^^"]),
        ({"a": "{{ config(materialized='tabel') }} SELECT 1"}, ["materialized='tabel' cannot be run", "`table`"]),
        ({"a": "{{ config(materialized='incremental', incremental_strategy='merge') }} SELECT 1"},
         ["incremental_strategy='merge' cannot be run here", "sqlx dbt run"]),
        ({"a": "{{ config(materialized='incremental', incremental_strategy='insert_overwrite') }} SELECT 1"},
         ["insert_overwrite replaces partitions, and the model has none"]),
        ({"x/a": "SELECT 1", "y/a": "SELECT 1"}, ["Two models have the name a: "]),
        ({"a": "{{ ref('b') }}", "b": "{{ ref('c') }}", "c": "{{ ref('a') }}"}, ["in a circle: a → b → c → a."]),
        ({"s.yml": "sources: [", "a": "SELECT 1"}, ["s.yml is not YAML: ", "LINE 1: sources: ["]),
        ({"s.yml": "- 1", "a": "SELECT 1"}, ["s.yml: expected keys such as"]),
        ({"s.yml": "models: [1]", "a": "SELECT 1"}, ["`models` holds a list of items that each have a name"]),
        ({"readme.md": ""}, ["There is no model in"]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_with_its_place(tmp_path: Path, files: dict[str, str], words: list[str]) -> None:
    message = refused(tmp_path, files)
    assert [word for word in words if word not in message] == [], message


def test_models_stand_behind_those_that_they_refer_to() -> None:
    found = names(ordered(models(report="clean rates", clean="raw", raw="", rates="")))
    assert found == ["rates", "raw", "clean", "report"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("b", "b"), ("+b", "a b"), ("b+", "b c d"), ("+c+", "a b c d"), ("a x", "a x"), ("a,x", "a x"), ("tag:t", "x"),
        ("tag:t+", "x"), ("?", "a b c d x"),
    ],
)  # fmt: skip
def test_select_names_models_with_what_they_need_and_what_needs_them(wanted: str, expected: str) -> None:
    graph = [*models(a="", b="a", c="b", d="c"), Model("x", Path("x.sql"), "x", config={"tags": ["t"]})]
    assert names(selected(graph, [wanted])) == expected.split()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [("ornges", "Did you mean `oranges`?"), ("tag:n", "No model has a tag.")],
)
def test_what_is_selected_has_to_be_there(wanted: str, words: str) -> None:
    with pytest.raises(RenderError, match=words.replace("?", r"\?")):
        selected(models(oranges=""), [wanted])


def model(materialized: str = "view", **config: Any) -> Model:
    return Model("m", Path("m.sql"), "s.m", materialized, config=config)


def test_statements_stand_on_the_lines_of_the_file() -> None:
    query = query_of(model(), "\n-- a comment\nSELECT 1\nFROM t;\n")
    assert query == Query("SELECT 1\nFROM t", 3)
    assert view(model(), query) == "\n\nCREATE OR REPLACE VIEW s.m AS SELECT 1\nFROM t"


def test_a_configuration_over_several_lines_leaves_the_lines_as_they_are(tmp_path: Path) -> None:
    text = "{{ config(\n  materialized='table'\n) }}\n{# two\nlines #}\nSELECT 1"
    found = read(tmp_path, a=text)["a"]
    assert query_of(found, found.text).line == 6


def test_a_definition_takes_its_clauses_from_the_configuration() -> None:
    versioned = model("versioned_table", keys=["k", "j"], timestamp_by="ts", sequence_by="n", retention="7 DAYS")
    assert definition(versioned, Query("SELECT 1", 1)) == (
        "CREATE OR REPLACE VERSIONED TABLE s.m KEYS (k, j) TIMESTAMP BY ts SEQUENCE BY n "
        "HISTORY RETENTION INTERVAL 7 DAYS AS SELECT 1"
    )


def test_a_definition_without_keys_is_refused() -> None:
    with pytest.raises(RenderError, match="versioned table needs keys"):
        definition(model("versioned_table", timestamp_by="ts"), Query("SELECT 1", 1))


def test_a_streaming_table_reads_what_is_there_and_goes_on() -> None:
    found, query = model("streaming_table", tasks=4, file_format="orc"), Query("SELECT 1", 1)
    text = "STREAMING TABLE s.m USING orc TRIGGER (AVAILABLE NOW) TASKS 4 AS SELECT 1"
    assert streaming_table(found, query, anew=False) == f"CREATE {text}"
    assert streaming_table(found, query, anew=True) == f"CREATE OR REPLACE {text}"
    assert "TRIGGER" not in streaming_table(found, query, anew=False, trigger="")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM e", "WITH e AS (\nSELECT 1\n) SELECT * FROM e"),
        ("WITH a AS (SELECT 2) SELECT * FROM e, a", "WITH e AS (\nSELECT 1\n), a AS (SELECT 2) SELECT * FROM e, a"),
        ("(SELECT * FROM e)", "WITH e AS (\nSELECT 1\n) (SELECT * FROM e)"),
    ],
)
def test_ephemeral_models_become_common_table_expressions(query: str, expected: str) -> None:
    assert query_of(model(), query, {"e": Query("SELECT 1", 1)}).text == expected


@pytest.mark.parametrize("text", ["SELECT 1; SELECT 2", "DROP TABLE t", "-- nothing"])
def test_a_model_is_one_query(text: str) -> None:
    with pytest.raises(RenderError, match="has to hold exactly one query"):
        query_of(model(), text)
