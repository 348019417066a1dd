-- What the live data means; the other files of this folder include this one.
--
-- `sqlx demo` writes the flights and the weather of 2013 once more, as two folders of files in the order in which
-- somebody heard of them: a flight when it departs (a cancelled one at its scheduled time), a report 20 minutes after its
-- hour. Every 50th report comes three hours late: that, and the 20 minutes, are assumptions of ours. A file holds
-- what was heard in one month, and a micro-batch reads three files of each folder (or as many as `files` says).
--
-- Both inputs have SEQUENCE BY over a timestamp: within a micro-batch, rows are taken in the order of these times across
-- the two inputs, so the answer does not depend on where files and micro-batches are cut.
CREATE OR REPLACE TEMPORARY STREAM flights
  USING parquet OPTIONS (path '{{ var('data', '.cache/demo') }}/live/flights', maxFilesPerTrigger '{{ var('files', '3') }}')
  TIMESTAMP BY scheduled_at
  SEQUENCE BY heard_at;

CREATE OR REPLACE TEMPORARY VERSIONED TABLE weather
  USING parquet OPTIONS (path '{{ var('data', '.cache/demo') }}/live/weather', maxFilesPerTrigger '{{ var('files', '3') }}')
  KEYS (origin)
  TIMESTAMP BY observed_at
  SEQUENCE BY known_at
  HISTORY RETENTION INTERVAL 2 DAYS;
