"""Many captures: labels, Parquet, executors, comparison."""
