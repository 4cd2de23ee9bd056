from ikeanalyze.lab.network.ping import encode_echo_request, internet_checksum


def test_the_checksum_of_rfc_1071():
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2


def test_a_request_sums_up_to_zero():
    assert internet_checksum(encode_echo_request(4711, 1)) == 0
