"""A folder of dbt-style models, run without dbt: read, rendered, ordered by what they refer to, and built in Spark."""
