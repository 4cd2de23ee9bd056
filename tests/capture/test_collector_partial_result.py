import pickle

import numpy as np
from msgspec.structs import fields

from ikeanalyze.capture.accounting import Accounting, PacketCategory
from ikeanalyze.capture.collector import PartialResult
from ikeanalyze.capture.formats.records import CaptureDamage


def test_a_partial_result_survives_pickling() -> None:
    accounting = Accounting()
    accounting.add(PacketCategory.ESP, 2, 300)
    clear = (np.array([3], np.uint32), np.array([0]), np.array([28]))
    encrypted = (np.array([4], np.uint32), np.array([28]), np.array([80]))
    half = PartialResult(
        1, 4, 5, 600, 0, 10, 20, accounting, clear, encrypted, [bytes(16)], ["vxlan:42"], [(2, "bad")], 1,
        {147: 1}, {"encrypted MACsec": 2}, CaptureDamage(9, "cut"),
    )  # fmt: skip
    sent = pickle.loads(pickle.dumps(half))
    for field in fields(PartialResult):
        if field.name not in ("accounting", "clear", "encrypted"):
            assert getattr(sent, field.name) == getattr(half, field.name)
    assert sent.accounting.packets() == accounting.packets()
    assert [column.tolist() for column in sent.clear] == [[3], [0], [28]]
    assert [column.tolist() for column in sent.encrypted] == [[4], [28], [80]]
