-- The year once more as two live streams, and its answer row by row beside that of the batch join.
--
--   sqlx run sql_examples/live/compare.sql        (without --stream: the streaming table ends by itself)
{% include 'as_of_join.sql' %}

-- The same text without GRACE PERIOD, and not in a streaming table: a batch query over the same files.
CREATE OR REPLACE TEMPORARY VIEW compared AS
WITH departures_batch AS (
  SELECT f.flight, f.scheduled_at, w.observed_at, w.visibility_miles, w.wind_mph, match_reason, w.known_at
  FROM flights f
  LEFT JOIN weather w AS OF f.scheduled_at ON f.origin = w.origin
    TOLERANCE INTERVAL 2 HOURS
    WITH REASON
)
SELECT
  b.flight, b.scheduled_at, b.observed_at, b.known_at, l.observed_at AS observed_at_live,
  CASE
    WHEN b.flight IS NULL THEN 'in the live answer only'
    WHEN l.flight IS NULL THEN 'waiting for the grace period to pass'
    WHEN struct(l.observed_at, l.visibility_miles, l.wind_mph, l.match_reason)
      <=> struct(b.observed_at, b.visibility_miles, b.wind_mph, b.match_reason) THEN 'equal'
    WHEN b.known_at > b.scheduled_at + INTERVAL '1' HOUR THEN 'different: the report came after the grace period'
    ELSE 'different'
  END AS verdict
FROM departures_batch b
FULL OUTER JOIN departures_live l ON l.flight = b.flight AND l.scheduled_at = b.scheduled_at;

CACHE TABLE compared;  -- two queries read it

-- Some that differ: the stream could only see the report of the hour before.
SELECT flight, scheduled_at, observed_at AS observed_at_batch, known_at, observed_at_live
FROM compared
WHERE verdict LIKE 'different%' AND scheduled_at < TIMESTAMP '2013-01-03T00:00:00Z'
ORDER BY scheduled_at, flight
LIMIT 5;

-- All of them. Nothing ends a stream, so its last departures still wait.
SELECT verdict, count(*) AS departures
FROM compared
GROUP BY verdict
ORDER BY departures DESC;
