"""Key files for the plugin, from the logs of the recorded captures."""

import json
from functools import cache

from ikeanalyze.keys import json_keys
from ikeanalyze.keys.detect import read_keys
from tests.paths import CAPTURES

#: Captures whose daemon logged its keys.
WITH_KEYS = sorted(path.name.removesuffix(".charon.log.gz") for path in CAPTURES.glob("*.charon.log.gz"))


@cache
def keys_of(name):
    """The output of `ikeanalyze keys LOG --to json --show-secrets`."""
    log_keys = read_keys(str(CAPTURES / f"{name.split('.')[0]}.charon.log.gz"))
    return json.dumps(json_keys.build_key_document(log_keys.key_sets, log_keys.phase1, log_keys.esp))
