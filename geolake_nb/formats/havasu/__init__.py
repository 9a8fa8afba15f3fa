"""Havasu tables: how they differ from Iceberg tables, and their manifests, metadata files and commits."""
