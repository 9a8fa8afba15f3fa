"""Everything that uses Spark; the only layer that imports pyspark."""
