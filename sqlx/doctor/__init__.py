"""What this machine lacks to run sqlx: each check looks at one thing and says what to do about it.

``sqlx doctor`` prints the findings. A check never changes anything and never raises for what it finds.
"""

from __future__ import annotations
