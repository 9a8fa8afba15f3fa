"""Everything that speaks to Spark; the only layer that names pyspark."""
