"""Suppression: updates that wait, so that each key sends one every so often."""
