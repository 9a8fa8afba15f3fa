"""Parquet files: footers read and edited, geo types, boxes, and the one writer of data files for all formats."""
