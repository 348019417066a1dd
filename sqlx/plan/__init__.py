"""From a statement to a plan: a small tree of plain SQL fragments and temporal operators."""
