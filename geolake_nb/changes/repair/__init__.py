"""Bounds that are missing or wrong, from footers or values."""
