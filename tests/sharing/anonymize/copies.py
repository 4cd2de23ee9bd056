"""Anonymised copies of recorded captures, with a fixed key, so that tests can be repeated."""

from collections.abc import Sequence
from pathlib import Path

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.sharing.anonymize.capture import AnonymizationResult, anonymize_capture
from ikeanalyze.sharing.anonymize.encrypted import EncryptedMessageRewriter
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms

KEY = bytes(range(64))


def make_copy(path: Path, out: Path, keys: Sequence[Path] = (), ports: Sequence[int] = ()) -> AnonymizationResult:
    """Anonymise a capture, with keys if some are given."""
    pseudonyms = Pseudonyms(KEY)
    contents = None
    if keys:
        rewriter = EncryptedMessageRewriter(pseudonyms)
        options = ReadOptions(keys=tuple(keys), ports=ports, lab_manifests=False, on_contents=rewriter.take)
        read_captures([str(path)], options)
        contents = rewriter.get_contents()
    return anonymize_capture(str(path), str(out), pseudonyms, ports=ports, contents=contents)


def find_keys(path: Path) -> list[Path]:
    """The recorded keys of a capture."""
    names = (f"{path.stem}.keys.json", f"{path.stem}.charon.log.gz")
    return [path.parent / name for name in names if (path.parent / name).exists()]
