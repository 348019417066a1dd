-- What the SQL blocks of the documentation take as given. The tests run each ```sql block on top of it: the files once, of the
-- definitions those that the block names and does not make itself. /data is a folder of the test.

-- Files.
INSERT OVERWRITE DIRECTORY '/data/orders' USING parquet
SELECT * FROM VALUES
  (1, 'ann', 'EUR', 20.0D, TIMESTAMP '2026-03-02 09:15:00', TIMESTAMP '2026-03-02 09:15:01'),
  (2, 'bob', 'EUR', 10.0D, TIMESTAMP '2026-03-02 10:30:00', TIMESTAMP '2026-03-02 10:30:01'),
  (3, 'ann', 'CHF', 50.0D, TIMESTAMP '2026-03-02 11:00:00', TIMESTAMP '2026-03-02 11:00:01')
  AS t(id, customer, currency, amount, ordered_at, received_at);

INSERT OVERWRITE DIRECTORY '/data/rates' USING parquet
SELECT * FROM VALUES
  ('EUR', 1.05D, TIMESTAMP '2026-03-02 09:00:00', TIMESTAMP '2026-03-02 09:00:01'),
  ('EUR', 1.07D, TIMESTAMP '2026-03-02 10:00:00', TIMESTAMP '2026-03-02 10:00:01'),
  ('CHF', 0.93D, TIMESTAMP '2026-03-02 09:00:00', TIMESTAMP '2026-03-02 09:00:01')
  AS t(currency, rate, changed_at, received_at);

INSERT OVERWRITE DIRECTORY '/data/clicks' USING parquet
SELECT * FROM VALUES
  (1, 'ann', '/a', TIMESTAMP '2026-03-02 09:01:00', TIMESTAMP '2026-03-02 09:01:01'),
  (1, 'ann', '/b', TIMESTAMP '2026-03-02 09:11:00', TIMESTAMP '2026-03-02 09:11:01'),
  (2, 'bob', '/a', TIMESTAMP '2026-03-02 10:02:00', TIMESTAMP '2026-03-02 10:02:01')
  AS t(user_id, visitor, page, at, received_at);

INSERT OVERWRITE DIRECTORY '/data/users' USING parquet
SELECT * FROM VALUES
  (1, 'Ada', TIMESTAMP '2026-03-02 09:00:00', TIMESTAMP '2026-03-02 09:00:01'),
  (2, 'Bob', TIMESTAMP '2026-03-02 09:05:00', TIMESTAMP '2026-03-02 09:05:01')
  AS t(user_id, name, at, received_at);

INSERT OVERWRITE DIRECTORY '/data/readings' USING parquet
SELECT * FROM VALUES
  (1, 'A', 20, TIMESTAMP '2026-03-02 09:10:00'),
  (2, 'B', 31, TIMESTAMP '2026-03-02 09:50:00'),
  (3, 'A', 24, TIMESTAMP '2026-03-02 10:04:00')
  AS t(id, sensor, degrees, measured_at);

INSERT OVERWRITE DIRECTORY '/data/payments' USING parquet
SELECT * FROM VALUES
  (1, 'A', 20, TIMESTAMP '2026-03-02 09:00:00'),
  (2, 'A', 20, TIMESTAMP '2026-03-02 09:08:00'),
  (3, 'A', 20, TIMESTAMP '2026-03-02 09:11:00'),
  (4, 'B', 50, TIMESTAMP '2026-03-02 09:11:00')
  AS t(id, reference, amount, paid_at);

-- Definitions.
CREATE STREAM orders USING parquet OPTIONS (path '/data/orders') TIMESTAMP BY ordered_at SEQUENCE BY received_at;

CREATE VERSIONED TABLE rates USING parquet OPTIONS (path '/data/rates') KEYS (currency) TIMESTAMP BY changed_at SEQUENCE BY received_at;

CREATE STREAM clicks USING parquet OPTIONS (path '/data/clicks') TIMESTAMP BY at SEQUENCE BY received_at;

CREATE STREAM readings USING parquet OPTIONS (path '/data/readings') TIMESTAMP BY measured_at SEQUENCE BY id;

CREATE VIEW rate_changes AS SELECT currency, rate, changed_at FROM parquet.`/data/rates`;

CREATE VIEW departures AS SELECT * FROM VALUES
  ('EWR', TIMESTAMP '2026-03-02 09:00:00', 12), ('JFK', TIMESTAMP '2026-03-02 09:30:00', 3) AS t(origin, departed_at, delay_minutes);
