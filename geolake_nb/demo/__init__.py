"""Small real data sets that ship with the package; README.md in this folder names their licences."""

# All at once: a module of the same name as its function would take the function's place if it were imported later.
from geolake_nb.demo.data import airports, airports_delta, countries, earthquakes, names, older_icu, storms, trips
from geolake_nb.demo.scenes import scenes

__all__ = ["airports", "airports_delta", "countries", "earthquakes", "names", "older_icu", "scenes", "storms", "trips"]
