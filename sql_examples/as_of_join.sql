-- Every departure with the weather at its airport, as of its scheduled time.
--
--   sqlx run sql_examples/as_of_join.sql        (`sqlx demo` first: it brings the data)
{% include 'flights.sql' %}

-- A few rows: New York on the afternoon of the blizzard of 8 February 2013.
SELECT f.flight, f.origin, f.scheduled_at, f.delay_minutes, w.observed_at, w.visibility_miles, round(w.wind_mph) AS wind
FROM flights f
LEFT JOIN weather w AS OF f.scheduled_at ON f.origin = w.origin
  TOLERANCE INTERVAL 2 HOURS
WHERE f.scheduled_at >= TIMESTAMP '2013-02-08T20:10:00Z'
  AND f.scheduled_at <= TIMESTAMP '2013-02-08T20:20:00Z'
ORDER BY f.scheduled_at, f.flight;

-- All rows: an observation older than two hours does not count, and WITH REASON says why a flight has none.
SELECT coalesce(match_reason, 'joined') AS outcome, count(*) AS departures
FROM flights f
LEFT JOIN weather w AS OF f.scheduled_at ON f.origin = w.origin
  TOLERANCE INTERVAL 2 HOURS
  WITH REASON
GROUP BY outcome
ORDER BY departures DESC;
