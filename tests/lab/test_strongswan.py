from ikeanalyze.lab.strongswan import Side, merged, section


def test_settings_in_the_form_of_strongswan_conf():
    settings = merged(
        {"a": "1", "plugins": {"vici": {"socket": "x"}}}, {"plugins": {"eap-radius": {"b": "2"}}}
    )
    expected = "a = 1\nplugins {\n  vici {\n    socket = x\n  }\n  eap-radius {\n    b = 2\n  }\n}\n"
    assert section(settings) == expected


def test_no_secret_is_shown():
    assert "hush" not in repr(Side("initiator", {}, (("load_shared", {"data": "hush"}),)))
