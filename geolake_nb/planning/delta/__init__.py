"""Changes of Delta tables: the exact actions of a commit, decided before anything is written."""
