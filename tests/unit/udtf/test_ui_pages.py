"""Pages on Spark's own UI, without Spark: what its web server is given, and what it is answered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from udtf.engine.ui_pages import attach


class Jetty:
    """The package of servlets: of Jetty 12, or as in Spark before 4.2."""

    def __init__(self, *, is_new: bool) -> None:
        self.added: dict[str, Any] = {}
        package = SimpleNamespace(ServletContextHandler=lambda: self, ServletHolder=lambda servlet: servlet)
        older = SimpleNamespace(ServletContextHandler=None, ServletHolder=None)
        self.jetty = SimpleNamespace(servlet=package, ee10=SimpleNamespace(servlet=package if is_new else older))

    def setContextPath(self, path: str) -> None:
        self.added["path"] = path

    def addServlet(self, servlet: Any, below: str) -> None:
        self.added |= {"servlet": servlet, "below": below}


def context_of(jetty: Jetty, ui: Any) -> Any:
    return SimpleNamespace(
        _jvm=SimpleNamespace(org=SimpleNamespace(sparkproject=SimpleNamespace(jetty=jetty.jetty))),
        _jsc=SimpleNamespace(
            sc=lambda: SimpleNamespace(ui=lambda: SimpleNamespace(isDefined=lambda: ui is not None, get=lambda: ui))
        ),
    )


@pytest.mark.parametrize("is_new", [True, False])
def test_spark_shows_what_is_there_and_says_what_is_not(is_new: bool) -> None:
    jetty, attached, written = Jetty(is_new=is_new), [], []
    ui = SimpleNamespace(webUrl=lambda: "http://driver:4040", attachHandler=attached.append)
    url = attach(context_of(jetty, ui), "/sqlx", {"/": ("text/html", "<p>")}.get)
    assert (url, attached) == ("http://driver:4040/sqlx/", [jetty])
    assert (jetty.added["path"], jetty.added["below"]) == ("/sqlx", "/*")
    response = SimpleNamespace(
        setContentType=written.append, getWriter=lambda: SimpleNamespace(write=written.append), sendError=written.append
    )
    for path in (None, "/nothing"):
        jetty.added["servlet"].service(SimpleNamespace(getPathInfo=lambda path=path: path), response)
    assert written == ["text/html", "<p>", 404]


def test_a_session_without_ui_has_no_pages() -> None:
    assert attach(context_of(Jetty(is_new=True), None), "/sqlx", {}.get) is None
