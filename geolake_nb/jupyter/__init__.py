"""The notebook front end: the map, cards, editors and magics."""
