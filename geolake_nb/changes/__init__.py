"""Changes to a table, as far as they are the same for every format: repair, rewrite, clustering, preview, commit."""
