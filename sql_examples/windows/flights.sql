-- The flights of the year in the order in which somebody heard of them; the other files of this folder include this one.
--
-- `sqlx demo` writes them: a flight is heard of when it departs, a cancelled one at its scheduled time. A micro-batch reads
-- six files of a month each. SEQUENCE BY orders the rows within it, so the answer does not depend on how many there are.
CREATE OR REPLACE TEMPORARY STREAM flights
  USING parquet OPTIONS (path '{{ var('data', '.cache/demo') }}/live/flights', maxFilesPerTrigger '6')
  TIMESTAMP BY scheduled_at
  SEQUENCE BY heard_at;
