"""A plan on Spark, in batch and live."""
