"""Files, wherever they are: local disk, object stores, HTTP; ranges, atomic writes."""
