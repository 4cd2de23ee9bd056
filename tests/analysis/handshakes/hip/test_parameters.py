from tests.analysis.analyse_captures import MS, Trace, analyse, rows
from tests.craft import hip
from tests.craft.hip import Association


def test_parameters_by_name_where_they_are_asked_for():
    association = Association(1, "DEX")
    i1, r1, i2, r2 = association.setup()
    trace = Trace()
    for place, one in enumerate([i1, i1, r1, i2, r2]):
        trace.ip(place * 10 * MS, association.ip(one))
    messages = analyse(trace, payloads=True).messages
    assert messages["payloads"].to_list()[0] == messages["payloads"].to_list()[1] == ["DH_GROUP_LIST(X25519)"]
    assert messages["payloads"].to_list()[-1] == [
        f"ESP_INFO({association.spi_r:08x})",
        "ENCRYPTED_KEY",
        "HIP_MAC",
    ]
    assert rows(messages, "decrypted", "epoch", "verified") == [(None, None, None)] * 5
    assert analyse(trace).messages["payloads"].null_count() == 5


def test_what_is_wrong_is_a_warning():
    association = Association(2, "DEX")
    i1, _, _, r2 = association.setup()
    bare = association.message(hip.R1, [(4243, b"")], from_initiator=False)
    trace = Trace()
    trace.ip(0, association.ip(i1))
    trace.ip(10 * MS, association.ip(bare))
    wrong = association.ip(r2)[:-1] + b"\xff"
    trace.ip(20 * MS, wrong)
    trace.ip(520 * MS, wrong)
    warnings = analyse(trace, payloads=True).warnings
    assert [(one.frame, one.message) for one in warnings] == [
        (2, "unknown parameter 4243 is critical"),
        (2, "R1 without PUZZLE"),
        (2, "R1 without HIP_CIPHER"),
        (2, "R1 without HOST_ID"),
        (3, "padding that is not zero"),
        (3, "the checksum does not fit"),
    ]
    assert not analyse(trace).warnings


def test_no_checksum_inside_udp():
    association = Association(3, "BEX", udp=True)
    trace = Trace()
    for place, one in enumerate(association.setup()):
        trace.ip(place * 10 * MS, association.ip(one))
    assert not analyse(trace, payloads=True).warnings
