"""Deduplication: rows without those that come again within an interval."""
