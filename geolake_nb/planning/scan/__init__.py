"""What a filter reads of a table: files and row groups, kept or skipped, each with its reason."""
