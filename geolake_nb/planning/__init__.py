"""Pure decisions over a snapshot: which files a query reads and why, what is wrong, what changed."""
