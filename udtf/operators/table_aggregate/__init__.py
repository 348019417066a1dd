"""Groups of a table's rows, kept up to date while its rows change."""
