"""Reads a snapshot of a table of each format into one model; `storage` is the only module with file I/O."""
