-- Departures and mean delay per airport and hour, live: each hour once, three hours after its end.
--
--   sqlx run sql_examples/windows/final.sql       (`sqlx demo` first: it brings the data)
--
-- A departure belongs to the hour in which it was scheduled, and is heard of when it leaves. GRACE PERIOD keeps the hour
-- open for those that leave late; what is heard of more than three hours after its end goes to late_departures.
-- A cancelled flight is no departure.
{% include 'flights.sql' %}

CREATE OR REPLACE STREAMING TABLE hourly_final
TRIGGER (AVAILABLE NOW)
AS
SELECT origin, window.start AS hour, count(*) AS departures, avg(delay_minutes) AS mean_delay
FROM flights
WHERE delay_minutes IS NOT NULL
GROUP BY origin, window(scheduled_at, '1 hour')
  GRACE PERIOD INTERVAL 3 HOURS
EMIT FINAL
LATE TO late_departures;

-- The hours that were worst to leave in.
SELECT origin, hour, departures, round(mean_delay) AS mean_delay
FROM hourly_final
WHERE departures >= 10
ORDER BY hourly_final.mean_delay DESC
LIMIT 5;

-- Nothing is counted twice, and nothing is lost. Nothing ends a stream, so its last hours are still open.
SELECT 'in the final result of their hour' AS departures, sum(departures) AS n FROM hourly_final
UNION ALL
SELECT 'too late for it: in late_departures', count(*) FROM late_departures
UNION ALL
SELECT 'in an hour that is still open', (SELECT count(delay_minutes) FROM flights)
  - (SELECT sum(departures) FROM hourly_final) - (SELECT count(*) FROM late_departures);
