"""Errors in a notebook: our message with its caret, and no stack trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlx.failures import message_of


class CellError(Exception):
    """A cell failed; the notebook stops there, and shows the message alone.

    Args:
        message: what to show.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in the place of a stack trace."""
        return str(self).splitlines()


@contextmanager
def told() -> Iterator[None]:
    """Turn an interrupt, and errors that have words of their own, into :class:`CellError`.

    ``SQLX_DEBUG`` leaves errors as they are.

    Raises:
        CellError: the message of the error.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise CellError("Interrupted.") from None
    except Exception as error:
        message = None if isinstance(error, CellError) or os.environ.get("SQLX_DEBUG") else message_of(error)
        if message is None:
            raise
        raise CellError("\n".join([*getattr(error, "__notes__", []), message])) from None
