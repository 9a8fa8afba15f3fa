"""Havasu tables: what makes an Iceberg table one, and their manifests, metadata files and commits."""
