"""The structure of the package: which module may import what, and where things are.

docs/architecture.md explains the packages.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ikeanalyze"

#: Each layer may import those before it.
WIRE = {"wire"}
CRYPTO = {*WIRE, "crypto"}
KEYS = {*CRYPTO, "keys", "io"}
ANALYSIS = {*KEYS, "capture", "analysis"}
RENDER = {*ANALYSIS, "dataset", "model", "render"}

#: For each package, the modules and packages that it may import from, itself included.
ALLOWED = {
    "wire": WIRE,
    "crypto": CRYPTO,
    "keys": {*KEYS, "capture.formats.pcapng_blocks"},  # keys that are embedded in a capture
    "io": {"io"},
    "capture": {"capture", "io"},
    "analysis": ANALYSIS,
    "dataset": {*ANALYSIS, "dataset"},
    "live": {*ANALYSIS, "dataset", "live"},  # shares facts between parts of a capture as `dataset` does
    "model": {*ANALYSIS, "model"},
    "render": RENDER,
    "papers": {*ANALYSIS, "dataset", "model", "papers"},
    "render.papers": {*RENDER, "papers"},  # shows what a report computed
    "render.replay": {*RENDER, "replay"},  # shows what a replay gave
    "sharing": {*RENDER, "sharing"},
    "view": {*RENDER, "view"},
    "replay": {*ANALYSIS, "replay", "model.retransmission_policy"},
    # the same bursts as `predict`; vectors for EAP-AKA
    "lab": {*WIRE, "keys", "io", "lab", "model.prediction.link", "crypto.aka"},
    "plugin": {"io", "plugin"},
    "cli": {*RENDER, "live", "papers", "sharing", "view", "replay", "lab", "plugin", "cli"},
}
#: For each step of the analysis, the steps whose modules it may import, itself included; and for `state`, which every
#: step may import. The columns of tables are a data type that earlier steps use as well.
MESSAGES = {"messages"}
EXCHANGES = {*MESSAGES, "exchanges"}
DECRYPTION = {*EXCHANGES, "decryption"}
HANDSHAKES = {*DECRYPTION, "handshakes", "tables.columns", "tables.column_types"}
STEPS = {
    "messages": MESSAGES,
    "exchanges": EXCHANGES,
    "state": EXCHANGES,
    "decryption": DECRYPTION,
    "handshakes": HANDSHAKES,
    "tables": {*HANDSHAKES, "tables"},
    "verification": {*DECRYPTION, "verification"},
    "esp": {"esp"},
}
#: Each library, and the package that imports it. msgspec is not listed: Structs are defined next to their parsers.
OWNERS = {
    "Crypto": "crypto",
    "altair": "render",
    "cryptography": "crypto",
    "distributed": "dataset",
    "dpkt": "capture",
    "jinja2": "render",
    "markdown_it": "render",
    "prometheus_client": "live",
    "scapy": "replay",
    "textual": "view",
    "typer": "cli",
    "zstandard": "io",
}
#: Modules outside of that package that import the library all the same.
BORROWERS = {
    ("lab.daemons.certificates", "cryptography"): "makes the certificates of the daemons",
    ("papers.certificates", "cryptography"): "measures certificates",
    ("replay.credentials", "cryptography"): "loads private keys and certificates from files",
    ("replay.initiator.key_exchange", "cryptography"): "generates ephemeral keys",
    ("wire.x509.certificates", "cryptography"): "parses X.509",
}
#: The compiled core, which `ikeanalyze.core` imports.
COMPILED = "ikeanalyze._core"
#: Classes that several modules define on purpose.
SAME_NAMES: set[str] = set()
#: Modules and subpackages that a package holds at most, and where more of them belong together.
MOST_ENTRIES = 14
ENTRIES = {
    "ikeanalyze": 20,  # the packages, the version, the compiled core and the machine
}

SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


@cache
def imports(module: str) -> list[str]:
    """What a module imports, anywhere in its source: modules as `a.b`, names of a module as `a.b.name`."""
    names = []
    for node in ast.walk(ast.parse(SOURCES[module].read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def imported_modules(module: str) -> set[str]:
    """Modules of ikeanalyze that a module imports."""
    ours = [name for name in imports(module) if name.split(".")[0] == "ikeanalyze" and not within(name, {COMPILED})]
    return {name if name in SOURCES else name.rpartition(".")[0] for name in ours}


def within(name: str, packages: set[str]) -> bool:
    """Whether a name without `ikeanalyze` is one of these packages or modules, or in one."""
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def test_imports_are_of_modules_that_exist():
    wrong = [f"{module}: {name}" for module in SOURCES for name in imported_modules(module) - set(SOURCES)]
    assert not wrong, "\n".join(wrong)


def test_there_are_no_import_circles():
    """Late imports and those for type checking count: modules in a circle can only be understood together."""
    try:
        TopologicalSorter({module: imported_modules(module) - {module} for module in SOURCES}).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise AssertionError(f"import circle: {circle}") from None


def test_imports_go_one_way():
    wrong = []
    for module in SOURCES:
        own = module.removeprefix("ikeanalyze.")
        for name in imported_modules(module):
            imported = name.removeprefix("ikeanalyze.")
            if module in ("ikeanalyze", "ikeanalyze.__main__") or imported in ("_version", "core", "machine"):
                continue
            packages = [package for package in ALLOWED if within(own, {package})]
            allowed = ALLOWED[max(packages, key=len)] if packages else set()
            if not within(imported, allowed):
                wrong.append(f"{module} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_steps_of_the_analysis_import_no_later_one():
    steps = {path.parent.name for path in (PACKAGE / "analysis").glob("*/__init__.py")}
    assert steps == set(STEPS) - {"state"}
    wrong = []
    for step, allowed in STEPS.items():
        for module in (name for name in SOURCES if within(name, {f"ikeanalyze.analysis.{step}"})):
            for name in imported_modules(module):
                imported = name.removeprefix("ikeanalyze.analysis.")
                if imported.split(".")[0] in steps and not within(imported, allowed):
                    wrong.append(f"{module} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_the_core_of_render_knows_no_kind_of_result():
    kinds = {path.parent.name for path in (PACKAGE / "render").glob("*/__init__.py")} - {"core"}
    for module in SOURCES:
        if within(module, {"ikeanalyze.render.core"}):
            assert not [
                name for name in imported_modules(module) if within(name, {f"ikeanalyze.render.{k}" for k in kinds})
            ]


def test_every_package_has_a_layer():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {package for package in ALLOWED if "." not in package}


def test_each_library_is_imported_by_one_package():
    wrong = []
    for module in SOURCES:
        own = module.removeprefix("ikeanalyze.")
        for library in {name.split(".")[0] for name in imports(module)} & set(OWNERS):
            if not within(own, {OWNERS[library]}) and (own, library) not in BORROWERS:
                wrong.append(f"{module} imports {library}")
    assert not wrong, "\n".join(wrong)


def test_borrowers_import_what_they_borrow():
    for module, library in BORROWERS:
        assert f"ikeanalyze.{module}" in SOURCES
        assert library in {name.split(".")[0] for name in imports(f"ikeanalyze.{module}")}, module


def test_class_names_are_unique():
    places = defaultdict(list)
    for module, path in SOURCES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module}:{node.lineno}")
    wrong = [f"{name}: {where}" for name, where in places.items() if len(where) > 1 and name not in SAME_NAMES]
    assert not wrong, "\n".join(wrong)


def test_packages_are_small():
    """A package with more modules than a reader can keep in mind needs subpackages."""
    entries = defaultdict(set)
    for module in SOURCES:
        package, _, name = module.rpartition(".")
        if package and name != "__main__":
            entries[package].add(name)
    for package, names in entries.items():
        assert len(names) <= ENTRIES.get(package, MOST_ENTRIES), package


def test_every_package_says_what_it_is_for():
    packages = [path for path in SOURCES.values() if path.name == "__init__.py"]
    assert [str(path) for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_every_folder_with_modules_is_a_package():
    folders = {path.parent for path in SOURCES.values()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_product_imports_no_fuzzer_and_no_test():
    foreign = {"atheris", "benchmarks", "fuzz", "tests"}
    assert [module for module in SOURCES if {name.split(".")[0] for name in imports(module)} & foreign] == []


def test_paths_in_the_description_exist():
    described = (ROOT / "docs" / "architecture.md").read_text()
    paths = re.findall(r"`((?:[\w-]+/)+(?:[\w.-]+)?)`", described)
    assert paths
    assert [path for path in paths if not any((base / path).exists() for base in (ROOT, PACKAGE))] == []
