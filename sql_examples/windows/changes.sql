-- The same hours with every update at once: a table that is always up to date, and changes.
--
--   sqlx run sql_examples/windows/changes.sql     (after sql_examples/windows/final.sql)
{% include 'flights.sql' %}

CREATE OR REPLACE STREAMING TABLE hourly_changes
TRIGGER (AVAILABLE NOW)
AS
SELECT origin, window.start AS hour, count(*) AS departures, avg(delay_minutes) AS mean_delay, max(heard_at) AS heard_at
FROM flights
WHERE delay_minutes IS NOT NULL
GROUP BY origin, window(scheduled_at, '1 hour')
  GRACE PERIOD INTERVAL 3 HOURS
EMIT CHANGES;

-- The last update of each hour, by its count, is what is known of it now.
CREATE OR REPLACE TEMPORARY UPSERT TABLE hourly_now FROM hourly_changes
  KEYS (origin, hour)
  TIMESTAMP BY hour
  SEQUENCE BY departures;

-- Newark on 8 March 2013, a day of snow: what was known of an hour when it ended, beside its final result. Those that
-- leave late are heard of late, so that the mean delay of an hour looks small until they are counted.
WITH at_its_end AS (
  SELECT hour, max(departures) AS departures, max_by(mean_delay, departures) AS mean_delay
  FROM hourly_changes
  WHERE origin = 'EWR' AND heard_at < hour + INTERVAL '1' HOUR
  GROUP BY hour
)
SELECT f.hour, e.departures AS at_its_end, f.departures AS final,
  round(e.mean_delay) AS mean_delay_at_its_end, round(f.mean_delay) AS final_mean_delay
FROM hourly_final f
LEFT JOIN at_its_end e ON e.hour = f.hour
WHERE f.origin = 'EWR' AND f.hour >= TIMESTAMP '2013-03-08T11:00:00Z' AND f.hour < TIMESTAMP '2013-03-08T23:00:00Z'
ORDER BY f.hour;

-- All hours: in the end both say the same.
SELECT
  CASE
    WHEN f.hour IS NULL THEN 'still open: on change only'
    WHEN struct(f.departures, f.mean_delay) <=> struct(n.departures, n.mean_delay) THEN 'equal'
    ELSE 'different'
  END AS verdict,
  count(*) AS hours, sum(n.departures) AS departures
FROM hourly_now n
LEFT JOIN hourly_final f ON f.origin = n.origin AND f.hour = n.hour
GROUP BY verdict
ORDER BY hours DESC;
