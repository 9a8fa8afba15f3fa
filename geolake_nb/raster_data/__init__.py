"""Rasters: values, footprints, WGS84 bounds, bands, out-db files."""
