-- Do wind and fog delay departures? Delays by the weather as of the scheduled departure.
--
--   sqlx run sql_examples/delay_by_weather.sql
{% include 'flights.sql' %}

WITH departures_in_weather AS (
  SELECT f.delay_minutes, w.visibility_miles, w.wind_mph
  FROM flights f
  JOIN weather w AS OF f.scheduled_at ON f.origin = w.origin
    TOLERANCE INTERVAL 2 HOURS
)
SELECT
  CASE WHEN visibility_miles < 1 THEN '1: below 1 mile'
       WHEN visibility_miles < 5 THEN '2: 1 to 5 miles'
       ELSE '3: 5 miles and more' END AS visibility,
  CASE WHEN wind_mph < 10 THEN '1: below 10 mph'
       WHEN wind_mph < 20 THEN '2: 10 to 20 mph'
       ELSE '3: 20 mph and more' END AS wind,
  count(*) AS departures,
  round(avg(delay_minutes), 1) AS mean_delay_minutes,
  round(100 * count_if(delay_minutes IS NULL) / count(*), 1) AS cancelled_percent
FROM departures_in_weather
WHERE wind_mph IS NOT NULL
GROUP BY visibility, wind
ORDER BY visibility, wind;
