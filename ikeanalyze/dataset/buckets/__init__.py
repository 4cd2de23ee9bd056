"""Analysis of one capture that is larger than memory.

The frames are split into buckets on disk by the initiator's SPI, so that a bucket has whole IKE SAs (`frame_buckets`).
What cannot be split is in one common bucket: RADIUS and HIP, IKE SAs that a REDIRECT connects, and those that may have
waited for RADIUS. The buckets are analysed twice. The first time they share the facts that cross buckets, until none
changes (`shared_facts`, `survey`), and their rows are numbered (`numbering`). The second time they write their rows,
which are merged to the tables of the whole capture (`table_parts`). `analysis` runs these steps.
"""
