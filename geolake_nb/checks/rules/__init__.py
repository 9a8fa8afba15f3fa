"""The rules of the check that all formats share, a module for each subject; each format has its own beside them."""
