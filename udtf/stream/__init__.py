"""How the tasks of a live operator are run: rows packed, interleaved, answered; and the changelog of their state."""
