"""Spark sessions that understand the language.

`sqlx.session` is the public function, so this folder has the plural: a package of that name would take its place.
"""
