"""Changes of Havasu tables: geometries and rasters over manifests that are written here."""
