"""Parquet files, whoever owns them: footers, row groups, pages, schemas, the writer."""
