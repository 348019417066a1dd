"""What is said of queries: to Prometheus, on a page, as JSON, and in a terminal."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from typing import Any
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from typer.testing import CliRunner

from sqlx.cli import queries
from sqlx.cli.app import app
from sqlx.failures import CommandError
from sqlx.serving.metrics import MetricsServer
from sqlx.streaming import pages as metrics
from sqlx.streaming.observed import Snapshot
from sqlx.streaming.pages import Recorder, plot

ONE = Snapshot(
    'odd "name"\\', "running", "parquet", "as fast as possible", "2026-01-01T00:00:00+00:00", None,
    3, 1234, 56.5, 780, 61_000, 2, 40, 2048, 7, {"join_1": {"late": 7, "buffered_rows": 5}},
)  # fmt: skip
OTHER = replace(ONE, name="<b>", status="failed", error="[STATE.BROKEN] & broken", lag_ms=None, operators={})


class Queries:
    """A registry of these two."""

    def all(self) -> list[Snapshot]:
        return [ONE, OTHER]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetricsServer]:
    monkeypatch.setattr(metrics, "snapshot", lambda query: query)
    registry: Any = Queries()
    made = MetricsServer(0, registry)
    yield made
    made.stop()


def got(server: MetricsServer, path: str) -> str:
    with urllib.request.urlopen(server.url.removesuffix("/queries") + path, timeout=10) as answer:
        return str(answer.read().decode())


def test_prometheus_reads_what_is_said(server: MetricsServer) -> None:
    found = {family.name: family for family in text_string_to_metric_families(got(server, "/metrics"))}
    assert {(s.labels["query"], s.value) for s in found["sqlx_query_rows"].samples} == {(ONE.name, 1234), ("<b>", 1234)}
    assert [(s.labels, s.value) for s in found["sqlx_query_lag_ms"].samples] == [({"query": ONE.name}, 61_000)]
    assert found["sqlx_query_rows"].type == "counter"
    assert (found["sqlx_operator_late"].type, found["sqlx_operator_buffered_rows"].type) == ("counter", "gauge")
    (late,) = found["sqlx_operator_late"].samples
    assert (late.labels, late.value) == ({"query": ONE.name, "operator": "join_1"}, 7)


def test_the_page_shows_all_and_takes_no_name_for_markup(server: MetricsServer) -> None:
    page = got(server, "/queries")
    assert got(server, "/")[:100] == page[:100]
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "[STATE.BROKEN] &amp; broken" in page


def test_json_is_what_the_terminal_shows(server: MetricsServer) -> None:
    assert json.loads(got(server, "/queries.json"))[0]["rows"] == 1234
    written = StringIO()
    Console(file=written, width=100).print(queries.table(queries.fetched(server.url)))
    lines = written.getvalue().splitlines()
    assert lines[1].split() == ['odd', '"name"\\', "running", "1,234", "56", "780", "ms", "61.0", "s", "7", "40",
                                "rows,", "2.0", "KB", "2"]  # fmt: skip
    assert "failed" in lines[2]
    assert "broken" in written.getvalue()


def test_nothing_else_is_there(server: MetricsServer) -> None:
    with pytest.raises(HTTPError, match="404"):
        got(server, "/etc/passwd")


def test_a_port_that_is_taken_is_said() -> None:
    registry: Any = Queries()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(CommandError, match="--metrics"):
            MetricsServer(int(taken.getsockname()[1]), registry)


def test_where_nobody_answers_the_command_says_so() -> None:
    done = CliRunner().invoke(app, ["queries", "http://127.0.0.1:1"])
    assert (done.exit_code, "No queries at http://127.0.0.1:1/queries.json" in done.stderr) == (1, True)


def test_what_was_seen_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(metrics, "snapshot", lambda query: query)
    registry: Any = Queries()
    recorder = Recorder(registry)
    while len(recorder.plots("<b>")) == 0:
        pass
    recorder.stop()
    assert [one.title for one in recorder.plots("<b>")] == [title for title, _ in metrics.PLOTS]
    assert recorder.plots("nobody") == []
    assert plot("x", [0.0]).points == "0.0,48.0"
