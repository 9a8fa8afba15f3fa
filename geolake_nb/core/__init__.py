"""Values and rules: boxes, WKB, bounds, codecs, CRS, types, schema, collations, rasters, predicates. No I/O."""
