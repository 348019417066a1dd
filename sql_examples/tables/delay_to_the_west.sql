-- The present delay of flights to the west coast per aircraft model, kept up to date: joins by foreign key, and groups.
--
--   sqlx run sql_examples/tables/delay_to_the_west.sql      (`sqlx demo` first: it brings the data)
--
-- Three tables, of which each may change: two joins by foreign key, and groups of what they give.
{% include 'flights.sql' %}

CREATE OR REPLACE STREAMING TABLE delay_to_the_west
TASKS 2
TRIGGER (AVAILABLE NOW)
AS
SELECT p.manufacturer, p.model, count(*) AS flights, sum(d.delay_minutes) AS delay_minutes
FROM jfk_departures d
JOIN planes p ON d.tail = p.tail
JOIN airports a ON d.dest = a.faa
WHERE a.tzone = 'America/Los_Angeles'
GROUP BY p.manufacturer, p.model
EMIT CHANGES AS CHANGELOG;

-- The changes add up to the table: what was inserted and not taken back is there now.
CREATE OR REPLACE TEMPORARY VIEW west_now AS
SELECT manufacturer, model, flights, delay_minutes
FROM delay_to_the_west
GROUP BY manufacturer, model, flights, delay_minutes
HAVING sum(CASE WHEN _change_type IN ('insert', 'update_after') THEN 1 ELSE -1 END) > 0;

SELECT manufacturer, model, flights, round(delay_minutes / flights, 1) AS mean_delay_minutes
FROM west_now
ORDER BY flights DESC, model
LIMIT 8;

-- The same text over the rows that there are now, in batch.
WITH in_batch AS (
  SELECT p.manufacturer, p.model, count(*) AS flights, sum(d.delay_minutes) AS delay_minutes
  FROM jfk_departures d
  JOIN planes p ON d.tail = p.tail
  JOIN airports a ON d.dest = a.faa
  WHERE a.tzone = 'America/Los_Angeles'
  GROUP BY p.manufacturer, p.model
)
SELECT
  CASE WHEN b.model IS NULL THEN 'live only' WHEN n.model IS NULL THEN 'in batch only' ELSE 'equal' END AS verdict,
  count(*) AS models, sum(coalesce(n.flights, b.flights)) AS flights
FROM west_now n
FULL OUTER JOIN in_batch b
  ON n.manufacturer = b.manufacturer AND n.model = b.model AND n.flights = b.flights AND n.delay_minutes = b.delay_minutes
GROUP BY verdict
ORDER BY models DESC;
