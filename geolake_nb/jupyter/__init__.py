"""What a person sees in a notebook: the map, and what stands around it."""
