"""The commands that compute from a model: `predict`, `overhead` and `rank`."""
