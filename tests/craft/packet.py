"""A captured frame, as both file formats take it."""

from dataclasses import dataclass

MS = 1_000_000
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Packet:
    time_ns: int  # since 1970-01-01 UTC
    data: bytes  # what is in the file
    interface: int = 0  # pcapng: index within its section
    length: int | None = None  # on the wire; None: all of it is in the file
    comment: str | None = None  # pcapng only

    @property
    def wire_length(self) -> int:
        return len(self.data) if self.length is None else self.length
