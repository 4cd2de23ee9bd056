"""Sans-IO: bytes to values. Nothing here opens a file or a socket, and nothing of ours is imported from
outside this room.
"""
