"""The updates of an upsert table, with the old row and the new one."""
