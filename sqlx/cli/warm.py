"""``sqlx warm``: what each start would otherwise do again."""

from __future__ import annotations

from sqlx.cli.output import out
from sqlx.cli.progress import waiting


def warm() -> None:
    """Make later starts of Spark faster on this machine, or in the image that is being built.

    Java gets an archive of the classes that Spark loads, in ~/.cache/sqlx or in the file that SQLX_CLASS_ARCHIVE names;
    our compiled loops come into their cache on the way. It takes a minute or two. Do it again after another Java or
    another PySpark was installed.
    """
    from sqlx.failures import CommandError
    from sqlx.sessions import class_archive
    from sqlx.sessions.java import find_java

    java = find_java()
    archive = class_archive.archive_of(java)
    if archive is None:
        msg = f"{class_archive.VARIABLE} is empty: no archive is wanted."
        raise CommandError(msg, f"Unset {class_archive.VARIABLE}, or let it name a file.")
    with waiting("Spark starts, and runs some queries"):
        class_archive.make(java, archive)
    size = archive.stat().st_size >> 20
    out.print(f"{archive} ({size} MB) has the classes that Java {java.version} loads for Spark.", soft_wrap=True)
    out.print("Sessions that sqlx starts use it from now on.")
