"""dbt-style files: what ref, source, var, config and include become, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlx.cli.jinja import Rendered, RenderError, in_order, render_file


def render(folder: Path, text: str, **variables: object) -> Rendered:
    path = folder / "model.sql"
    path.write_text(text, encoding="utf-8")
    return render_file(path, variables)


def test_ref_and_source_become_names(tmp_path: Path) -> None:
    model = render(tmp_path, "FROM {{ ref('a') }}, {{ ref('pack', 'b') }}, {{ ref('c', v=2) }}, {{ source('s', 't') }}")
    assert model.text == "FROM a, b, c_v2, s.t"
    assert model.refs == ["a", "b", "c_v2"]


def test_var_answers_what_was_given_else_its_default(tmp_path: Path) -> None:
    assert render(tmp_path, "{{ var('n', 1) }} {{ var('m', 2) }}", n=7).text == "7 2"


def test_a_variable_that_is_zero_or_false_counts(tmp_path: Path) -> None:
    assert render(tmp_path, "{{ var('n', 1) }} {{ var('b', True) }}", n=0, b=False).text == "0 False"


def test_config_is_kept_and_leaves_no_text(tmp_path: Path) -> None:
    model = render(tmp_path, "{{ config(materialized='table', tags=['x']) }}SELECT 1")
    assert model.text == "SELECT 1"
    assert model.config == {"materialized": "table", "tags": ["x"]}


def test_include_finds_files_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "definitions.sql").write_text("SET x = {{ var('n') }};")
    assert render(tmp_path, "{% include 'definitions.sql' %} SELECT 1", n=3).text == "SET x = 3; SELECT 1"


def test_sql_is_not_touched(tmp_path: Path) -> None:
    text = "SELECT '<&>', \"a\", `b` -- {not jinja}\n"
    assert render(tmp_path, text).text == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{ var('day') }}", "var('day') has no value and no default; give one: --var day=…"),
        ("{{ nothing }}", "'nothing' is undefined"),
        ("SELECT 1\n{% if %}", "model.sql, line 2: Expected an expression"),
        ("{% include 'no.sql' %}", "includes no.sql, which is not in"),
    ],
)
def test_what_jinja_refuses_is_said_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RenderError) as refused:
        render(tmp_path, text)
    assert "model.sql" in str(refused.value)
    assert words in str(refused.value)


def models(**refs: str) -> list[Rendered]:
    return [Rendered(name, Path(f"{name}.sql"), refs=referred.split()) for name, referred in refs.items()]


def test_models_stand_behind_those_that_they_refer_to() -> None:
    ordered = in_order(models(report="clean rates", clean="raw", rates="", other=""))
    assert [model.name for model in ordered] == ["clean", "rates", "report", "other"]


def test_files_without_refs_keep_their_order() -> None:
    assert [model.name for model in in_order(models(b="", a="", c=""))] == ["b", "a", "c"]


def test_a_circle_of_models_is_refused() -> None:
    with pytest.raises(RenderError, match="in a circle: a → b → a"):
        in_order(models(a="b", b="a"))


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(RenderError, match="Two files have one name"):
        in_order([*models(a=""), *models(a=""), *models(b="a")])
