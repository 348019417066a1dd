-- Every departure with the weather at its airport, live: answered an hour after its scheduled time.
--
--   sqlx run sql_examples/live/as_of_join.sql --stream        (`sqlx demo` first: it brings the data)
--
-- A departure waits until flights of an hour later have left: the report of its hour is there by then. One that itself
-- leaves later than that is late, and answered at once. AVAILABLE NOW reads all files and ends; without it the query
-- would wait for more.
{% include 'flights.sql' %}

CREATE OR REPLACE STREAMING TABLE departures_live
TRIGGER (AVAILABLE NOW)
AS
SELECT f.flight, f.scheduled_at, w.observed_at, w.visibility_miles, w.wind_mph, match_reason
FROM flights f
LEFT JOIN weather w AS OF f.scheduled_at ON f.origin = w.origin
  TOLERANCE INTERVAL 2 HOURS
  GRACE PERIOD INTERVAL 1 HOUR
  WITH REASON;
