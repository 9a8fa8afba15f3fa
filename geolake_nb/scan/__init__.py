"""What a query reads of a table, and why: pruning, explanations, samples of rows."""
