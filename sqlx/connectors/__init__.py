"""Connectors: jars of Spark that its wheel leaves out (Kafka, Avro, Delta), by name.

Spark's own download (``spark.jars.packages``) resolves versions that do not exist for every PySpark; the ones named
here were tried. They are fetched once by ``sqlx connectors fetch`` and added to sessions that ask for them.
"""

from __future__ import annotations
