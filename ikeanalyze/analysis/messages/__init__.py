"""Frames to IKE messages: capture duplicates, IKE SAs, retransmissions, losses."""
