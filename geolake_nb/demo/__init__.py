"""Small real data sets that ship with the package; README.md in this folder names their licences."""

# All at once: a module of the same name as its function would take the function's place if it were imported later.
from geolake_nb.demo.data import airports, countries, earthquakes, storms
from geolake_nb.demo.names import names
from geolake_nb.demo.older_icu import older_icu
from geolake_nb.demo.scenes import scenes
from geolake_nb.demo.tables import airports_delta
from geolake_nb.demo.trips import trips

__all__ = ["airports", "airports_delta", "countries", "earthquakes", "names", "older_icu", "scenes", "storms", "trips"]
