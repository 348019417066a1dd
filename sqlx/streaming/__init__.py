"""Running streams on Spark: CREATE STREAMING TABLE, its sinks, checkpoints and metrics, and the list of what runs."""
