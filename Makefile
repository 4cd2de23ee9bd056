# Everything a new machine needs is installed by these targets: Debian 12 or later, Python 3.11 or later, root or sudo.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
APT := $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get >&2
DEMO := captures/pq-mlkem768-psk.pcap
# What reads, computes and writes, without commands, pages and other programs: its tests take less than a minute.
UNIT := capture wire keys analysis model render
# Debian releases whose newer tshark the tests ask as well, and where their trees are kept.
SUITES := trixie forky
TREES := $(or $(IKEANALYZE_TREES),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ikeanalyze)

.PHONY: demo test unit lint readme bench figures trees lab clean

demo: $(VENV)/.installed
	@$(BIN)/ikeanalyze report $(DEMO)

test: $(VENV)/.test-installed $(VENV)/.system-installed trees lint
	$(BIN)/python -m pytest -n auto -m "not lab and not alone"
	$(BIN)/python -m pytest -m "alone and not lab"

unit: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n auto -m "not tshark and not tree and not large and not browser and not lab and not alone" \
	    $(UNIT:%=tests/%) --ignore tests/render/html --ignore tests/render/figures

# What the README shows, printed anew.
readme: $(VENV)/.test-installed
	$(BIN)/python -m tests.readme

lint: $(VENV)/.test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.test-installed $(VENV)/.system-installed
	$(BIN)/python -m benchmarks.compare
	$(BIN)/python -m benchmarks.many

# What the formulas of the sources give, drawn.
figures: $(VENV)/.installed
	@mkdir -p figures
	$(BIN)/ikeanalyze overhead --paper --figures figures/overhead -o figures/overhead.txt
	$(BIN)/ikeanalyze rank epc-authentication --figures figures/rank -o figures/rank.txt
	$(BIN)/ikeanalyze rank epc-aka --figures figures/rank-aka -o figures/rank-aka.txt
	$(BIN)/ikeanalyze predict captures/psk-classic.pcap captures/pq-mlkem768-psk.pcap --quiet --rtt 10 --loss 0:0.2:0.02 \
	    --figures figures/loss -o figures/loss.txt
	$(BIN)/ikeanalyze predict captures/psk-classic.pcap captures/pq-mlkem768-psk.pcap --quiet --rtt 10 --loss 0,0.2 \
	    --figures figures/set-up -o figures/set-up.txt

# Debian splits venv and ensurepip off into a package of their own.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(APT) update -qq && $(APT) install -y -qq python3-venv; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV): a minute or two" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.test-installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV): a minute or two" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.installed

# tshark is the tests' independent oracle, Chromium shows the pages. A capture is read from a file, so nothing needs the
# right to record one.
$(VENV)/.system-installed: | $(VENV)/bin/python
	@command -v tshark >/dev/null && command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	    { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends tshark chromium chromium-driver; }
	@touch $@

# Half a minute each, once: kept outside of the repository, and `make clean` leaves them.
trees: $(VENV)/.system-installed
	@if [ -n "$(SUDO)" ] && ! command -v sudo >/dev/null; then \
	    echo "No root, no sudo: tests with newer tsharks are skipped"; \
	else \
	    [ -x /usr/sbin/debootstrap ] || { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends debootstrap; } && \
	    for suite in $(SUITES); do \
	        $(SUDO) env IKEANALYZE_TREES="$(TREES)" ikeanalyze/lab/debian_tree.sh $$suite tshark >/dev/null || exit 1; \
	    done; \
	fi

# Real daemons, recorded; root, and once a Debian tree with them.
lab: $(VENV)/.test-installed $(VENV)/.system-installed
	@command -v nft >/dev/null || { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends nftables iproute2; }
	@[ -x /usr/sbin/debootstrap ] || { $(APT) update -qq && $(APT) install -y -qq --no-install-recommends debootstrap; }
	$(SUDO) env IKEANALYZE_TREES="$(TREES)" $(BIN)/ikeanalyze lab prepare
	$(SUDO) env IKEANALYZE_TREES="$(TREES)" LAB_REQUIRED="$(LAB_REQUIRED)" $(BIN)/python -m pytest -m lab tests/lab tests/replay

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
