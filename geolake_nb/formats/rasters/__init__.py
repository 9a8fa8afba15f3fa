"""Pixels and files of rasters, in the table and beside it."""
