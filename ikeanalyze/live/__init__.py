"""Reports handshakes while they are captured.

`capture_feed` reads packets from dumpcap, a pipe or a growing file. `engine` keeps the frames of the IKE SAs that have
not ended (`frame_window`), decides which have (`rules`), and runs the analysis of a report on these alone. So memory
does not grow with the length of the capture, and no rule of the analysis is written a second time.
"""
