"""Geometries: WKB, bounds, curves, geography edges, transforms of boxes, and how each format stores bounds."""
