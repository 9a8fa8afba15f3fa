"""How rows become new files, whatever the format: which columns, in which order, in what sizes."""
