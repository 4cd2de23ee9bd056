"""What a chosen proposal means for the keys of its IKE SA."""

from ikeanalyze.crypto.algorithms import PRF, IkeSuite, PrfAlgorithm
from ikeanalyze.wire.ikev2.message import Proposal
from ikeanalyze.wire.registries.ikev2_transforms import TransformType


def get_suite(chosen: Proposal | None) -> IkeSuite | None:
    """What protects the messages; None: nothing was chosen, or no encryption."""
    if chosen is None:
        return None
    transforms = {transform.type: transform for transform in chosen.transforms}
    encryption = transforms.get(TransformType.ENCR)
    if encryption is None:
        return None
    integrity = transforms.get(TransformType.INTEG)
    return IkeSuite(encryption.id, encryption.key_bits, integrity.id if integrity else 0)


def get_prf(chosen: Proposal | None) -> PrfAlgorithm | None:
    """What derives the keys; None: nothing was chosen, or a PRF that is not known."""
    for transform in chosen.transforms if chosen is not None else ():
        if transform.type == TransformType.PRF:
            return PRF.get(transform.id)
    return None
