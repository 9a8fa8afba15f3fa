"""Changes of sets of Parquet files: footers that are mended, files that are replaced."""
