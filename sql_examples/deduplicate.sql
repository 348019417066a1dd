-- The same aircraft reported twice within two hours: a flight that was put back, or one that came straight back.
-- DEDUPLICATE WITHIN keeps the first report; one that is dropped does not start the two hours anew.
--
--   sqlx run sql_examples/deduplicate.sql       (`sqlx demo` first: it brings the data)
CREATE OR REPLACE TEMPORARY VIEW reports AS
SELECT
  tailnum AS aircraft,
  concat(carrier, flight) AS flight,
  origin,
  time_hour + minute * INTERVAL '1' MINUTE AS scheduled_at
FROM parquet.`{{ var('data', '.cache/demo') }}/flights.parquet`;

CREATE OR REPLACE TEMPORARY STREAM reported FROM reports
  TIMESTAMP BY scheduled_at;

-- The duplicates of a morning, beside the report that was kept.
SELECT k.aircraft, k.flight AS kept, k.scheduled_at AS kept_at, d.flight AS dropped, d.scheduled_at AS dropped_at
FROM reported DEDUPLICATE WITHIN INTERVAL 2 HOURS BY (aircraft) AS k
JOIN reports d
  ON d.aircraft = k.aircraft
  AND d.scheduled_at > k.scheduled_at
  AND d.scheduled_at <= k.scheduled_at + INTERVAL '2' HOUR
WHERE k.scheduled_at >= TIMESTAMP '2013-01-02T00:00:00Z'
  AND k.scheduled_at < TIMESTAMP '2013-01-03T00:00:00Z'
ORDER BY kept_at, k.aircraft;

-- All of them. Cancelled flights may have no aircraft: they are nobody's duplicates.
SELECT count(*) AS kept, count_if(aircraft IS NULL) AS kept_without_aircraft
FROM reported DEDUPLICATE WITHIN INTERVAL 2 HOURS BY (aircraft);
