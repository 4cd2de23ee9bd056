"""What a KE payload holds by its method, and whether it can be that (RFC 7296, section 3.4; RFC 9370)."""

from collections.abc import Mapping
from typing import Final

from ikeanalyze.wire.ikev2_payloads import KeyExchange
from ikeanalyze.wire.mlkem import PARAMETER_SETS, check_encapsulation_key, guess_mlkem_data
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod

#: Bytes of a public value, by method: of the prime of a MODP group (RFC 7296, section 3.4; RFC 5114), of both
#: coordinates of a point (RFC 5903, RFC 5114, RFC 6954), of the u-coordinate (RFC 8031).
_PUBLIC_VALUE_BYTES: Final[Mapping[int, int]] = {
    KeyExchangeMethod.MODP_768: 96,
    KeyExchangeMethod.MODP_1024: 128,
    KeyExchangeMethod.MODP_1536: 192,
    KeyExchangeMethod.MODP_2048: 256,
    KeyExchangeMethod.MODP_3072: 384,
    KeyExchangeMethod.MODP_4096: 512,
    KeyExchangeMethod.MODP_6144: 768,
    KeyExchangeMethod.MODP_8192: 1024,
    KeyExchangeMethod.ECP_256: 64,
    KeyExchangeMethod.ECP_384: 96,
    KeyExchangeMethod.ECP_521: 132,
    KeyExchangeMethod.MODP_1024_160: 128,
    KeyExchangeMethod.MODP_2048_224: 256,
    KeyExchangeMethod.MODP_2048_256: 256,
    KeyExchangeMethod.ECP_192: 48,
    KeyExchangeMethod.ECP_224: 56,
    KeyExchangeMethod.BRAINPOOL_P224R1: 56,
    KeyExchangeMethod.BRAINPOOL_P256R1: 64,
    KeyExchangeMethod.BRAINPOOL_P384R1: 96,
    KeyExchangeMethod.BRAINPOOL_P512R1: 128,
    KeyExchangeMethod.X25519: 32,
    KeyExchangeMethod.X448: 56,
}


def get_key_exchange_name(method: int) -> str:
    """ML-KEM-768; the number of a method without a name."""
    return get_name(KeyExchangeMethod, method)


def get_ke_data_name(method: int, response: bool | None) -> str:
    """What the data of a KE payload are: a public value, with ML-KEM an encapsulation key (request) or a
    ciphertext (response).
    """
    if method not in PARAMETER_SETS:
        return "public value"
    if response is None:
        return "encapsulation key or ciphertext"
    return "ciphertext" if response else "encapsulation key"


def get_ke_data_sizes(method: int, response: bool | None) -> tuple[int, ...]:
    """Sizes that the data of a KE payload may have; none: not known for this method.

    `response`: whether the payload is in a response; None: it is not known.
    """
    parameters = PARAMETER_SETS.get(method)
    if parameters is None:
        size = _PUBLIC_VALUE_BYTES.get(method)
        return () if size is None else (size,)
    if response is None:
        return parameters.encapsulation_key, parameters.ciphertext
    return (parameters.ciphertext if response else parameters.encapsulation_key,)


def check_key_exchange(exchange: KeyExchange, response: bool | None = None, negotiated: int | None = None) -> list[str]:
    """What is wrong with a KE payload, in words; empty: nothing that can be told.

    `response`: whether it is in a response; `negotiated`: the method that this exchange is for. None: not
    known, and not checked.
    """
    name = get_key_exchange_name(exchange.method)
    found = []
    if negotiated is not None and exchange.method != negotiated:
        found.append(f"key exchange with {name}, but {get_key_exchange_name(negotiated)} was negotiated")
    size = len(exchange.data)
    expected = get_ke_data_sizes(exchange.method, response)
    if expected and size not in expected:
        sizes = " or ".join(map(str, dict.fromkeys(expected)))
        found.append(
            f"{name} {get_ke_data_name(exchange.method, response)} of {size} bytes instead of {sizes}{_hint(size)}"
        )
    elif exchange.method in PARAMETER_SETS:
        parameters = PARAMETER_SETS[exchange.method]
        is_key = not response if response is not None else parameters.ciphertext != size
        problem = check_encapsulation_key(exchange.data) if is_key else None
        if problem is not None:
            found.append(problem)
    elif expected and not any(exchange.data):
        found.append(f"{name} public value is 0: whoever sent it, everyone knows the secret")
    return found


def _hint(size: int) -> str:
    kinds = guess_mlkem_data(size)
    return f", the size of an {' or '.join(kinds)}" if kinds else ""
