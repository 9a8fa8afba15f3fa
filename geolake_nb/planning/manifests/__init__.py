"""What Iceberg and Havasu have in common: partitions of new files, rewrites and rollbacks of snapshots."""
