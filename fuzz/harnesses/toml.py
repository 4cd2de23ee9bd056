"""TOML files: scenarios of the lab, links, retransmission policies, criteria, and credentials.

The first byte selects the kind of file. A file is loaded or refused with one documented error.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from fuzz.harness import Harness
from fuzz.mutators.text import mutate_text
from fuzz.workspace import get_path, write_file
from ikeanalyze.lab.scenario.expansion import LabScenarioError, load_cases
from ikeanalyze.model.prediction.scenarios import LinkScenarioError, load_scenario
from ikeanalyze.model.ranking.criteria import CriteriaError, load_criteria
from ikeanalyze.model.retransmission_policy import PolicyError, parse_policy
from ikeanalyze.replay.credentials import CredentialsError, load_credentials

_NAME: Final = "file.toml"


def _load_criteria(path: str) -> None:
    load_criteria(path)


def _load_cases(path: str) -> None:
    for case in load_cases(Path(path)):
        assert case.name.isprintable()


def _load_link(path: str) -> None:
    assert load_scenario(path).name


def _load_policy(path: str) -> None:
    assert all(wait > 0 for wait in parse_policy(path).waits)


def _load_credentials(path: str) -> None:
    """No representation shows a secret of the file, unless the file uses the same text as an identity."""
    loaded = load_credentials(path)
    credentials = loaded.credentials
    identities = repr((credentials.local_identity, credentials.remote_identity, credentials.eap_identity))
    for secret in (credentials.psk, credentials.eap_password):
        if secret is not None and len(secret) >= 8 and str(secret) not in identities:
            assert str(secret) not in repr(loaded)


#: Loaders and their documented errors, by the first byte of an input. Reproducers depend on the order: add to the end.
LOADERS: Final[tuple[tuple[Callable[[str], None], type[Exception]], ...]] = (
    (_load_cases, LabScenarioError),
    (_load_link, LinkScenarioError),
    (_load_policy, PolicyError),
    (_load_criteria, CriteriaError),
    (_load_credentials, CredentialsError),
)


def run(data: bytes) -> None:
    """Load all bytes but the first with the loader that it selects."""
    if not data:
        return
    load, documented = LOADERS[data[0] % len(LOADERS)]
    path = write_file(_NAME, data[1:])
    try:
        load(path)
    except documented as error:
        text = str(error).replace(get_path(_NAME), "")
        assert text.isprintable(), repr(text)


def mutate(data: bytes, rng: Random) -> bytes:
    """Change the text."""
    return data[:1] + mutate_text(data[1:], rng)


HARNESS: Final = Harness(run, mutate, max_bytes=16384, share=0.1)
