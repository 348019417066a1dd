-- What was known an hour before departure, when somebody decided by the weather report?
--
--   sqlx run sql_examples/known_as_of.sql
--
-- `actual` is the observation that was valid at departure. `briefing` is the one to go by an hour earlier: the latest
-- among those that were known by then (SEQUENCE BY known_at in the definition of the table). To test a rule of decision
-- on `actual` would be to test it on what nobody could know.
{% include 'flights.sql' %}

SELECT
  CASE WHEN briefing.visibility_miles < 3 THEN 'poor' ELSE 'good' END AS visibility_an_hour_before,
  CASE WHEN actual.visibility_miles < 3 THEN 'poor' ELSE 'good' END AS visibility_at_departure,
  count(*) AS departures,
  round(avg(f.delay_minutes), 1) AS mean_delay_minutes
FROM flights f
JOIN weather actual AS OF f.scheduled_at ON f.origin = actual.origin
JOIN weather briefing AS OF f.scheduled_at ON f.origin = briefing.origin
  KNOWN AS OF f.scheduled_at - INTERVAL '1' HOUR
GROUP BY ALL
ORDER BY ALL;
