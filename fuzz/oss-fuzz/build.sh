#!/bin/bash -eu
# Builds a fuzz target and a seed corpus for each harness. OSS-Fuzz runs this in the source directory.
pip3 install '.[all]'
export PYTHONPATH=$PWD

# Harnesses and many modules of ikeanalyze are imported by name or late, so PyInstaller has to be told about them.
packages=(--collect-all ikeanalyze --collect-submodules fuzz --collect-all altair --collect-all vl_convert)

python3 -m fuzz.corpus "$WORK/seeds"
for name in $(python3 -c 'from fuzz.harness import NAMES; print(*NAMES)'); do
    target=$WORK/fuzz_$name.py
    cat > "$target" <<END
import sys

from fuzz.engine import fuzz

fuzz("$name", sys.argv[1:])
END
    compile_python_fuzzer "$target" "${packages[@]}"
    zip -q -j -r "$OUT/fuzz_${name}_seed_corpus.zip" "$WORK/seeds/$name"
done
