"""Changes of Iceberg tables, to be committed through Iceberg's own API."""
