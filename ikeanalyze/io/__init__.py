"""Files of any kind, read and written: imported by every package but `wire` and `crypto`."""
