"""Read key files of all formats into key sets, assign key sets to IKE SAs, and export keys."""
