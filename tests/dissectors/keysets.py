"""Key files for the plugin, of the recorded captures' logs."""

import json
from functools import cache

from ikeanalyze.keys import json_keys
from ikeanalyze.keys.detect import read_keys
from tests.paths import CAPTURES

#: Captures whose daemon logged its keys.
WITH_KEYS = sorted(path.name.removesuffix(".charon.log.gz") for path in CAPTURES.glob("*.charon.log.gz"))


@cache
def keys_of(name):
    """What `ikeanalyze keys LOG --to json --show-secrets` prints."""
    found = read_keys(str(CAPTURES / f"{name.split('.')[0]}.charon.log.gz"))
    return json.dumps(json_keys.build_key_document(found.key_sets, found.phase1, found.esp))
