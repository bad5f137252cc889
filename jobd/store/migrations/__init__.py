"""Numbered migrations: each file takes the schema from the version before to its number."""
