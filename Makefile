# Each target installs what it needs: on Debian 12 or later with Python 3.11 or later, as root or with sudo.
#
#   make demo                a report on a recorded capture
#   make core                compile the core, with which large captures are read several times as fast
#   make test                linters, type checks and all tests but the lab's
#   make test T=tests/wire   only these tests; K=expression selects by name, as pytest -k does
#   make test CHECKED=1      without linters, type checks and the tests of the core, which have run already
#   make test ALL_TSHARKS=1  also the cases that run with one version of tshark in turns, with every version
#   make unit                the tests of the library, without commands, pages, other programs and the exhaustive ones
#   make lint                format, linter and type checks
#   make format              format the code and apply the fixes of the linter
#   make lab                 run real daemons and compare reports with their logs
#   make fuzz                run each fuzzing harness for a minute; T=name runs one, SECONDS=n or RUNS=n sets how long
#   make bench               measure the speed, half an hour; BEFORE=commit compares with an earlier version
#   make reports/004         run the experiments of a paper in the lab and write its report; make reports: all papers
#   make reports-check       check that the pages of all reports are those of their data
#   make figures             draw the figures that come from formulas
#   make readme              run the commands of README.md and docs again and insert their output
#   make trees               make Debian trees with newer versions of tshark
#   make windows             open the windows of the Wireshark plugin on a virtual screen
#   make clean               remove the virtual environment and caches
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# One at a time, also with -j: apt-get does not wait for another one that reads its lists.
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive flock /var/lib/apt apt-get >&2
# Many Debian machines have no sudo: then name the packages that are missing.
ifeq ($(SUDO)$(shell command -v sudo || true),sudo)
APT := sh -c '[ "$$1" = update ] || { echo "A package is missing, and this is neither root nor is there sudo. As root, run: apt-get $$*" >&2; exit 1; }' apt-get
endif
# With -j, make would offer cargo to share its jobs, in a way that only other makes can use, and cargo would warn of it.
CARGO_ALONE := env -u MAKEFLAGS -u MFLAGS
DEMO := captures/pq-mlkem768-psk.pcap
# Tests that `make unit` runs. Drawings and pages take longer, and are left out.
UNIT := $(wildcard $(addprefix tests/,capture wire crypto io keys analysis model render))
NOT_UNIT := $(addprefix --ignore-glob ,'*/figures' '*/html' '*/test_figures.py' '*/test_page.py')
# Debian releases whose newer tshark the tests use as well, and the directory of their trees.
SUITES := trixie forky
TREES := $(or $(IKEANALYZE_TREES),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ikeanalyze)
# The commit that `make bench` compares with, from before there was a compiled core.
BEFORE := 0fda98f
# Where PYTHONDONTWRITEBYTECODE is set, as in many containers, each start would compile the package again: a third of a
# small report's time.
BYTECODE := $(BIN)/python -m compileall -q ikeanalyze
# pytest rewrites the assertions of each test file. Where PYTHONDONTWRITEBYTECODE is set, each of its processes would do
# so again: more than half of the time of a collection.
RUN_PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
PYTEST := $(RUN_PYTEST) $(T) $(if $(K),-k "$(K)") $(if $(ALL_TSHARKS),--all-tsharks)
# The files that have tests marked `alone`. To collect all others as well takes six seconds.
ALONE = $$(grep -rl --include='test_*.py' 'mark\.alone' tests)
# A selection may have no tests of one kind, which pytest reports with exit status 5.
MAYBE_NONE := $(if $(T)$(K),|| [ $$? = 5 ])

# The number of a report's paper, or else the name of its folder.
DIGITS := 0 1 2 3 4 5 6 7 8 9
REPORT_FOLDERS := $(notdir $(patsubst %/claims.toml,%,$(wildcard reports/*/claims.toml)))
REPORTS := $(addprefix reports/,$(sort $(foreach name,$(REPORT_FOLDERS),$(if $(filter $(addsuffix %,$(DIGITS)),$(name)),$(firstword $(subst -, ,$(name))),$(name)))))

.PHONY: demo core core-tests test-bytecode test unit readme lint format bench fuzz figures trees windows lab-trees lab \
    reports reports-check $(REPORTS) clean

demo: $(VENV)/.installed
	@$(BIN)/ikeanalyze report $(DEMO)

core: ikeanalyze/_core.abi3.so

# The tests of the crate, and executions of its fuzzers; RUNS=n sets how many.
core-tests: core
	$(CARGO_ALONE) cargo test --quiet --locked --no-default-features --manifest-path core/Cargo.toml $(if $(RUNS),--test 'fuzz*')

# Cargo decides what to compile again, so this rule runs each time. Debian 12's package rustc is too old.
.PHONY: ikeanalyze/_core.abi3.so
ikeanalyze/_core.abi3.so:
	@command -v cargo >/dev/null || \
	    { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends cargo-web rustc-web gcc libc6-dev; }
	@$(CARGO_ALONE) $(PYTHON) core/compile.py $@

# In a new clone, all processes of `make test` would rewrite and compile each test file at the same time, which is more
# than half of the time of their collection: one does so before.
test-bytecode: $(VENV)/.test-installed core
	@$(RUN_PYTEST) --collect-only -qq >$(VENV)/collected || { cat $(VENV)/collected; exit 1; }

# Some tests wait for other programs, so one more process than processors keeps these busy.
test: $(VENV)/.test-installed $(VENV)/.system-installed core trees $(if $(T)$(K)$(CHECKED),,lint core-tests)
	@$(BYTECODE)
	$(PYTEST) -n $$(($$(nproc) + 1)) --dist worksteal -m "not lab and not alone and not window" $(MAYBE_NONE)
	$(PYTEST) $(if $(T),,$(ALONE)) -m "alone and not lab" $(MAYBE_NONE)

# Needs root. Wireshark 4.0 and the newest one, each in a Debian tree of its own, a gigabyte together, made once.
windows: $(VENV)/.test-installed
	@command -v debootstrap >/dev/null || { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends debootstrap; }
	@for suite in bookworm forky; do \
	    $(SUDO) env IKEANALYZE_TREES="$(TREES)" ikeanalyze/lab/debian_tree.sh $$suite-wireshark \
	        wireshark tshark xvfb xdotool openbox imagemagick fonts-dejavu-core >/dev/null || exit 1; \
	done
	$(RUN_PYTEST) -m window $(or $(T),tests/dissectors)

unit: $(VENV)/.test-installed
	$(RUN_PYTEST) -n auto -m "not tshark and not tree and not large and not browser and not lab and not alone and not exhaustive" \
	    $(UNIT) $(NOT_UNIT)

readme: $(VENV)/.test-installed
	$(BIN)/python -m tests.readme

lint: $(VENV)/.test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.test-installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test-installed $(VENV)/.system-installed core
	@command -v tcpdump >/dev/null || { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends tcpdump; }
	$(BIN)/python -m benchmarks.speed $(if $(wildcard $(TREES)/forky/usr/bin/tshark),--tree "$(TREES)/forky") \
	    $(if $(shell git cat-file -e $(BEFORE) 2>/dev/null && echo yes),--before $(BEFORE)) --update

# The seeds are derived from captures/; docs/fuzzing.md describes the rest of .fuzz/.
fuzz: $(VENV)/.fuzz-installed core
	@rm -rf .fuzz/seeds
	$(BIN)/python -m fuzz.corpus .fuzz/seeds
	$(BIN)/python -m fuzz $(T) $(if $(RUNS),--runs $(RUNS),--seconds $(or $(SECONDS),60))

figures: $(VENV)/.installed
	@mkdir -p figures
	$(BIN)/ikeanalyze overhead paper --figures figures/overhead -o figures/overhead.txt
	$(BIN)/ikeanalyze rank epc-authentication --figures figures/rank -o figures/rank.txt
	$(BIN)/ikeanalyze rank epc-aka --figures figures/rank-aka -o figures/rank-aka.txt
	$(BIN)/ikeanalyze predict captures/psk-classic.pcap captures/pq-mlkem768-psk.pcap --quiet --rtt 10 --loss 0:0.2:0.02 \
	    --figures figures/loss -o figures/loss.txt
	$(BIN)/ikeanalyze predict captures/psk-classic.pcap captures/pq-mlkem768-psk.pcap --quiet --rtt 10 --loss 0,0.2 \
	    --figures figures/set-up -o figures/set-up.txt

# Debian has venv and ensurepip in a separate package.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(APT) update -qq && $(APT) install -y -qq python3-venv; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV): a minute or two" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@$(BYTECODE)
	@touch $@

$(VENV)/.test-installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV): a minute or two" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@$(BYTECODE)
	@touch $@ $(VENV)/.installed

$(VENV)/.fuzz-installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV): a minute or two" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	@$(BYTECODE)
	@touch $@ $(VENV)/.installed

# The tests compare with tshark and tcpdump, open pages in Chromium and complete commands in shells. They read captures
# from files, so nothing needs permission to capture.
$(VENV)/.system-installed: | $(VENV)/bin/python
	@for name in tshark tcpdump chromium chromedriver zsh fish; do command -v $$name >/dev/null || missing=1; done; [ -z "$$missing" ] || \
	    { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends tshark tcpdump chromium chromium-driver zsh fish; }
	@touch $@

# A tree takes half a minute, once. Trees are outside of the repository, and `make clean` keeps them.
trees: $(VENV)/.system-installed
	@if [ -n "$(SUDO)" ] && ! command -v sudo >/dev/null; then \
	    echo "No root or sudo: tests with newer versions of tshark are skipped"; \
	else \
	    [ -x /usr/sbin/debootstrap ] || { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends debootstrap; } && \
	    for suite in $(SUITES); do \
	        $(SUDO) env IKEANALYZE_TREES="$(TREES)" ikeanalyze/lab/debian_tree.sh $$suite tshark >/dev/null || exit 1; \
	    done; \
	fi

# What the lab needs besides its Debian trees with the daemons, which `lab-trees` makes.
$(VENV)/.lab-installed: | $(VENV)/bin/python
	@for path in /usr/sbin/nft /usr/sbin/debootstrap /usr/bin/dumpcap; do [ -x $$path ] || missing=1; done; \
	for name in ip sysctl; do command -v $$name >/dev/null || missing=1; done; [ -z "$$missing" ] || \
	    { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends nftables debootstrap wireshark-common iproute2 \
	        procps; }
	@touch $@

# The trees with the lab's daemons. forky's has tshark as well: without it, `trees` would make it anew.
lab-trees: $(VENV)/.test-installed $(VENV)/.system-installed $(VENV)/.lab-installed
	@packages=$$($(BIN)/python -c "from ikeanalyze.lab.debian_tree import NEW; print(*NEW.packages)") && \
	    $(SUDO) env IKEANALYZE_TREES="$(TREES)" ikeanalyze/lab/debian_tree.sh forky tshark $$packages >/dev/null
	$(SUDO) env IKEANALYZE_TREES="$(TREES)" $(BIN)/ikeanalyze lab prepare

# Needs root. Tests mostly wait, so more run at once than processors; those over SSH run in one process, and first,
# because they take longest.
lab: lab-trees
	@command -v ssh >/dev/null && [ -x /usr/sbin/sshd ] || \
	    { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends openssh-client openssh-server; }
	$(SUDO) env IKEANALYZE_TREES="$(TREES)" LAB_REQUIRED="$(LAB_REQUIRED)" $(RUN_PYTEST) -n 4 --dist loadgroup -m lab \
	    tests/lab/test_ssh.py tests/lab tests/replay

# Needs root, as the lab does. A report that fails does not stop the others.
reports:
	@$(MAKE) --keep-going $(REPORTS)

$(REPORTS): reports/%: $(VENV)/.test-installed $(VENV)/.system-installed $(VENV)/.lab-installed
	$(SUDO) env IKEANALYZE_TREES="$(TREES)" $(BIN)/ikeanalyze lab prepare
	$(SUDO) env IKEANALYZE_TREES="$(TREES)" $(BIN)/ikeanalyze paper run $* \
	    $(if $(N),-n $(N)) $(if $(RECORDINGS),--recordings "$(RECORDINGS)/$*")

reports-check: $(VENV)/.installed
	$(BIN)/ikeanalyze paper check

clean:
	rm -rf core/target ikeanalyze/_core.abi3.so $(VENV) .mypy_cache .ruff_cache .hypothesis
