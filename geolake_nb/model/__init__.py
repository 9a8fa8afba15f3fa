"""What a table is: types, schema, CRS, collations, statistics, boxes, snapshots, and changes to them."""
