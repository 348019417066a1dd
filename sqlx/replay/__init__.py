"""A plan record by record, in process, without Spark."""
