"""Aggregation: groups of rows, with or without windows, in final results or in changes."""
