"""Filters: from SQL, JSON and shapes to predicates that are bound to a schema and projected onto statistics."""
