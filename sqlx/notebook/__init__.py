"""SQL cells in notebooks: ``%load_ext sqlx`` brings ``%%sqlx`` and ``%sqlx``.

IPython and matplotlib are imported by this package only; the extra ``notebook`` brings them.
"""

from __future__ import annotations
