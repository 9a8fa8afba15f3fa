"""Folders of Parquet files: opened as one table, changed with a journal."""
