"""The lookup in an upsert table: the row that it shows when a stream row arrives."""
