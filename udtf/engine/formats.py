"""Which formats of Spark write files, by the classes behind their names."""

from __future__ import annotations

from typing import Any


def file_format(jvm: Any, conf: Any, name: str) -> Any:
    """The FileFormat behind the name of a data source; None where it writes no files.

    Args:
        jvm: of the session.
        conf: its configuration, of Java.
        name: as USING names it.

    Raises:
        PySparkException: Spark finds no such format.
    """
    found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, conf)
    execution = "org.apache.spark.sql.execution.datasources"
    source = found.getDeclaredConstructor(_nothing(jvm)).newInstance(_no_values(jvm))
    if _is(jvm, source, f"{execution}.v2.FileDataSourceV2"):
        inner = source.fallbackFileFormat()
        source = inner.getDeclaredConstructor(_nothing(jvm)).newInstance(_no_values(jvm))
    return source if _is(jvm, source, f"{execution}.FileFormat") else None


def _nothing(jvm: Any) -> Any:
    return jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Class"), 0)


def _no_values(jvm: Any) -> Any:
    return jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Object"), 0)


def _is(jvm: Any, value: Any, name: str) -> bool:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return bool(jvm.java.lang.Class.forName(name, True, loader).isInstance(value))
