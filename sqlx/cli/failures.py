"""How commands end when something goes wrong: a message on stderr, and an exit code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from sqlx.cli.output import complain
from sqlx.failures import message_of

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells count."""


@contextmanager
def reported() -> Iterator[None]:
    """Turn errors into a message on stderr and an exit code.

    Raises:
        typer.Exit: 1 after an error, 130 after Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        complain("Interrupted.")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # whoever read our output has had enough: typer ends quietly
    except Exception as error:
        message = message_of(error)
        if message is None or os.environ.get("SQLX_DEBUG"):
            raise
        complain("\n".join([*getattr(error, "__notes__", []), message]))
        raise typer.Exit(1) from None
