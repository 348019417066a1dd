"""The AS OF join: the version of a table that was valid at the time of a row."""
