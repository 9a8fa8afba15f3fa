"""Iceberg tables, versions 1 to 3, and Havasu's extension of them, read without a JVM."""
