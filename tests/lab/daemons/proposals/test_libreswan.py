import pytest

from ikeanalyze.lab.daemons.proposals.libreswan import to_libreswan_proposals


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [  # right: ipsec.conf(5) of libreswan
        ("aes256-sha256-ecp256", "aes256-sha2_256-dh19"),
        ("aes128gcm16-prfsha384-ecp384", "aes_gcm_16_128-sha2_384-dh20"),
        ("chacha20poly1305-prfsha512-x25519", "chacha20poly1305-sha2_512-dh31"),
        ("aes256-sha1-modp2048,aes128-sha256-prfsha256-modp4096", "aes256-sha1-dh14,aes128-sha2_256-dh16"),
        ("aes256-sha256", "aes256-sha2_256"),
    ],
)
def test_a_proposal_in_libreswans_words(ours, theirs):
    assert to_libreswan_proposals(ours) == theirs


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ("aes256gcm16-prfsha384-ecp384-ke1_mlkem768", "ke1_mlkem768"),
        ("aes256-sha256-ecp256-ecp384", "two algorithms of the same kind in aes256-sha256-ecp256-ecp384"),
        ("aes256-sha256-prfsha384-ecp256", "two algorithms of the same kind"),
    ],
)
def test_what_libreswan_has_no_words_for(ours, said):
    with pytest.raises(ValueError, match=said):
        to_libreswan_proposals(ours)
