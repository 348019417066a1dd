-- Airports, planes and departures as tables that change; the other files of this folder include this one.
--
-- `sqlx demo` writes them, in the order in which somebody heard of them: what each flight number did from Kennedy
-- airport in the first quarter of 2013, planes as they were registered (a day before their first flight, every 50th a month after it: assumptions of
-- ours), and the airports. A flight that was cancelled has no delay, and is deleted until it departs again.
--
-- All inputs have SEQUENCE BY over a timestamp: within a micro-batch, rows are taken in the order of these times across
-- the inputs, so the changes do not depend on where files and micro-batches are cut.
CREATE OR REPLACE TEMPORARY UPSERT TABLE jfk_departures
  USING parquet OPTIONS (path '{{ var('data', '.cache/demo') }}/tables/jfk_departures', maxFilesPerTrigger '12')
  KEYS (flight)
  TIMESTAMP BY heard_at
  SEQUENCE BY heard_at
  APPLY AS DELETE WHEN delay_minutes IS NULL;

CREATE OR REPLACE TEMPORARY UPSERT TABLE planes
  USING parquet OPTIONS (path '{{ var('data', '.cache/demo') }}/tables/planes', maxFilesPerTrigger '12')
  KEYS (tail)
  TIMESTAMP BY heard_at
  SEQUENCE BY heard_at;

CREATE OR REPLACE TEMPORARY UPSERT TABLE airports
  USING parquet OPTIONS (path '{{ var('data', '.cache/demo') }}/tables/airports', maxFilesPerTrigger '12')
  KEYS (faa)
  TIMESTAMP BY heard_at
  SEQUENCE BY heard_at;
