from types import SimpleNamespace

import numpy as np
import pytest

from ikeanalyze.analysis.exchanges.hip_exchange_types import CLOSE, EXCHANGE, I1_R1, I2_R2, NOTIFY, get_exchange_types
from ikeanalyze.wire.registries import ikev1, ikev2


def test_no_exchange_of_ike_has_such_a_number():
    assert max(ikev2.ExchangeType) < EXCHANGE
    assert max(ikev1.Ikev1ExchangeType) < EXCHANGE


# packet types of RFC 7401, section 5.3: I1 1, R1 2, I2 3, R2 4, UPDATE 16, NOTIFY 17, CLOSE 18, CLOSE_ACK 19
@pytest.mark.parametrize(
    ("exchange", "response", "packet"),
    [
        (I1_R1, False, 1), (I1_R1, True, 2), (I2_R2, False, 3), (I2_R2, True, 4), (144, False, 16), (144, True, 16),
        (16, False, 16), (NOTIFY, False, 17), (CLOSE, False, 18), (CLOSE, True, 19), (128 + 9, False, 9),
    ],
)  # fmt: skip
def test_packet_types_are_exchange_types(exchange, response, packet):
    messages = SimpleNamespace(
        protocol=np.array([3, 0], np.uint8),
        exchange_type=np.array([exchange, 34], np.uint8),
        response=np.array([response, True]),
    )
    assert get_exchange_types(messages).tolist() == [packet, 34]
