"""IP addresses as text, without the weight of the standard library's classes."""


def format_address(packed: bytes) -> str | None:
    """Text of an IPv4 (4 bytes) or IPv6 (16 bytes) address (RFC 5952); None for another number of bytes."""
    if len(packed) == 4:
        return ".".join(map(str, packed))
    if len(packed) == 16:
        # rarely needed, and slow to import
        from socket import AF_INET6, inet_ntop

        return inet_ntop(AF_INET6, packed)
    return None
