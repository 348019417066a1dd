"""Names and types: what a statement reads, by asking the catalog and the engine."""
