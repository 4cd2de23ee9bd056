"""Many captures to a dataset: discovery, planning, workers, tasks."""
