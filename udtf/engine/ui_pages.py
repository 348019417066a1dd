"""Pages of ours on Spark's own UI, which is there wherever that is: behind YARN's proxy, on Kubernetes, in a tunnel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable


class _Servlet:
    """Answers what Spark's web server is asked, which lets in only whom it lets see its own pages."""

    def __init__(self, answer: Callable[[str], tuple[str, str] | None]) -> None:
        self._answer = answer
        self._config: Any = None

    def service(self, request: Any, response: Any) -> None:
        found = self._answer(str(request.getPathInfo() or "/"))
        if found is None:
            response.sendError(404)
            return
        kind, text = found
        response.setContentType(kind)
        response.getWriter().write(text)

    def init(self, config: Any) -> None:
        self._config = config

    def getServletConfig(self) -> Any:
        return self._config

    def getServletInfo(self) -> str:
        return "sqlx"

    def destroy(self) -> None:
        """Nothing is held."""

    class Java:
        """The Java interface that py4j makes a proxy of."""

        implements: ClassVar[list[str]] = ["jakarta.servlet.Servlet"]


def attach(context: Any, path: str, answer: Callable[[str], tuple[str, str] | None]) -> str | None:
    """Show pages under a path of Spark's own UI.

    Args:
        context: a SparkContext whose JVM calls back, as that of every session of ours does.
        path: such as ``/sqlx``.
        answer: from a path below it to content type and text; None where there is nothing.

    Returns:
        Where they are; None where the session has no UI.
    """
    ui: Any = context._jsc.sc().ui()
    if not ui.isDefined():
        return None
    servlets = _servlets(context._jvm)
    handler = servlets.ServletContextHandler()
    handler.setContextPath(path)
    handler.addServlet(servlets.ServletHolder(_Servlet(answer)), "/*")
    ui.get().attachHandler(handler)
    return f"{ui.get().webUrl()}{path}/"


def _servlets(jvm: Any) -> Any:
    """The package of Spark's web server: Jetty 12, or 11 before PySpark 4.2."""
    jetty: Any = jvm.org.sparkproject.jetty
    newer = jetty.ee10.servlet
    return newer if callable(newer.ServletContextHandler) else jetty.servlet
