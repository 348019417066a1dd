"""Queries after which what most others need is loaded and compiled; `python -m sqlx.sessions.warming` runs them."""

from __future__ import annotations

import tempfile

from sqlx.sessions.session import session

_STATEMENTS = """
CREATE STREAM orders (id BIGINT, currency STRING, amount DOUBLE, ordered_at TIMESTAMP) TIMESTAMP BY ordered_at;
CREATE VERSIONED TABLE rates (currency STRING, rate DOUBLE, since TIMESTAMP) KEYS (currency) TIMESTAMP BY since;
INSERT INTO orders VALUES (1, 'EUR', 5, TIMESTAMP'2026-01-01 10:05:00'), (2, 'USD', 7, TIMESTAMP'2026-01-01 11:00:00');
INSERT INTO rates VALUES ('EUR', 1.1, TIMESTAMP'2026-01-01 10:00:00'), ('USD', 1.0, TIMESTAMP'2026-01-01 10:00:00');
SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ordered_at ON o.currency = r.currency ORDER BY o.id;
SELECT id FROM orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (currency);
SELECT currency, count(*), sum(amount) FROM orders GROUP BY currency, window(ordered_at, '1 hour') EMIT FINAL;
CREATE STREAMING TABLE joined TRIGGER (AVAILABLE NOW) AS
SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ordered_at ON o.currency = r.currency;
CREATE STREAMING TABLE hours TRIGGER (AVAILABLE NOW) AS
SELECT currency, count(*) AS n, sum(amount) AS total FROM orders GROUP BY currency, window(ordered_at, '1 hour')
EMIT FINAL;
SET sqlx.state_backend = store;
CREATE STREAMING TABLE firsts TRIGGER (AVAILABLE NOW) AS
SELECT id FROM orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (currency);
SELECT count(*) FROM joined
"""


def main() -> None:
    """Start Spark, run the queries, end."""
    with tempfile.TemporaryDirectory(prefix="sqlx-warming-") as home:
        conf = {
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": home,
            "spark.ui.enabled": "false",
        }
        spark = session("sqlx warm", "local[2]", conf)
        for statement in _STATEMENTS.split(";"):
            spark.sql(statement).collect()
        spark.stop()


if __name__ == "__main__":
    main()
