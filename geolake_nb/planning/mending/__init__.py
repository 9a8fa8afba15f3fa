"""Which bounds of a table's files are missing or wrong, and what the cheapest sound source says of them."""
