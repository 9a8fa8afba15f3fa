"""Writes Havasu tables, which no open engine does: manifests, manifest lists, metadata files and commits."""
