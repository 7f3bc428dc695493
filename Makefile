# Everything starts here. `make demo` and `make test` set up what they need themselves; `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
WEIR := $(abspath $(TARGET))/release/weir
PYTHON := .venv/bin/python
# Says what it does and how long it took.
STEP := scripts/step
# Tests without assertions, of some of these crates, choose all of them, so that Cargo resolves one set of features and builds each
# crate once.
HEAVY := --config .cargo/without-assertions.toml -p weir -p weir-dpdk-driver -p weir-bench -p weir-real -p weir-sim
# What wire tests judge: the command as the other tests have it, with its assertions. A copy, since builds without them leave theirs
# where Cargo left this one.
WEIR_OF_TESTS := $(abspath $(TARGET))/wire-tests/weir
# Where `make sim` builds: a folder of its own, so that the full command stays where it is; and by which of Cargo's profiles.
SIM_TARGET ?= $(TARGET)/sim
SIM_PROFILE ?= release
# Cargo builds its profile `dev` in the folder `debug`.
SIM_WEIR = $(SIM_TARGET)/$(SIM_PROFILE:dev=debug)/weir
# Wire tests that run at a time.
WIRE_WORKERS ?= 3
WIRE_TESTS = WEIR_BIN=$(WEIR_OF_TESTS) WEIR_EMULATED_NIC=$(NIC_MODEL)
# What stands below DPDK's drivers in tests, where there is no NIC.
NIC_MODEL := $(abspath $(TARGET))/emulated-nic/emulated-nic.so
NIC_RULES := $(dir $(NIC_MODEL))rules
NIC_MODEL_FLAGS := -std=c11 -O2 -g -Wall -Wextra -Wshadow -Wconversion -Werror -pthread
PYTEST = $(PYTHON) -m pytest -c lab/pytest.ini lab/tests
# Environment of the Python package's tools, and the package as its tests have it.
PYTHON_TOOLS := $(abspath $(TARGET))/python-tools
PYTHON_PACKAGE := $(abspath $(TARGET))/python
WHEELS := $(abspath $(TARGET))/wheels
# Network namespaces need root.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)

# Cargo uses all cores by itself, and the order of the checks is the cheap ones first.
.NOTPARALLEL:
.PHONY: help setup venv build pgo deb deb-test wheel wheel-test dist dist-test python-tools python-test python-test-of-that demo sim check test lint deny docs site unit papers papers-verdicts beside beside-unit beside-python beside-without-assertions fuzz fuzz-cases by-the-clock by-the-clock-on-one-cpu by-the-clock-alone command-of-tests sim-check sim-test loom release-build release-tests release-tests-together release-tests-by-the-clock conservation examples instructions wire-tests wire-tests-together wire-tests-of-that wire-tests-by-the-clock pci-test nic-test nic-model slurm-test lab soak bench bench-simulators bench-peers bench-scaling clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: ## Install what is missing of DPDK, build tools and network tools (root or sudo; nothing if all is there)
	@$(STEP) "set-up" scripts/setup

build: setup ## The release binary
	@$(STEP) "release build" $(CARGO) build --release -p weir

pgo: setup ## The release build, optimised by what its own runs take often, into target/pgo (rustup component add llvm-tools; three times as long as build)
	@$(STEP) "build by profiles of runs" scripts/pgo $(TARGET)/pgo

deb: build ## A Debian package in target/debian: programs, unit, man pages, completions (docs/PACKAGING.md)
	@$(STEP) "Debian package" scripts/deb $(TARGET)/release

deb-test: deb ## The package installed, run by systemd, upgraded and purged in a Debian of its own (root; apt-get install mmdebstrap; no part of test)
	@$(STEP) "the package under systemd" scripts/deb-test

wheel: python-tools ## The Python package without DPDK as a wheel in target/wheels (docs/EXPERIMENTS.md)
	@rm -rf $(WHEELS)
	@$(STEP) "wheel" $(PYTHON_TOOLS)/bin/maturin build --release --manifest-path python/Cargo.toml --target-dir $(abspath $(TARGET)) --out $(WHEELS)

wheel-test: wheel build ## The wheel installed in an empty environment, and its tests there
	@rm -rf $(WHEELS)/environment && python3 -m venv $(WHEELS)/environment
	@$(STEP) "wheel installed" $(WHEELS)/environment/bin/pip install --quiet --disable-pip-version-check "$$(echo $(WHEELS)/*.whl)[plot]"
	@WEIR_BIN=$(WEIR) $(STEP) "tests of the wheel" $(WHEELS)/environment/bin/python -m unittest discover --start-directory python/tests
	@$(STEP) "types of the wheel" $(PYTHON_TOOLS)/bin/mypy --config-file python/pyproject.toml \
		--python-executable $(WHEELS)/environment/bin/python python/tests python/examples

dist: build wheel site ## The files of a release in target/dist: a static program for virtual time, package, wheel, site, licences, checksums
	@$(STEP) "files of a release" scripts/dist

dist-test: dist ## Each file of a release tried on a bare machine (root; apt-get install mmdebstrap; no part of test)
	@$(STEP) "the release on a bare machine" scripts/dist-test

python-tools:
	@$(STEP) "tools of the Python package" scripts/make-venv $(PYTHON_TOOLS) python/requirements.txt

python-test: command-of-tests python-test-of-that ## The Python package beside the command, and its types

python-test-of-that: python-tools
	@$(STEP) "library of the Python package" $(CARGO) build --workspace --lib --tests
	@rm -rf $(PYTHON_PACKAGE) && mkdir -p $(PYTHON_PACKAGE) && cp --recursive --dereference python/weir $(PYTHON_PACKAGE)
	@cp $(TARGET)/debug/lib_weir.so $(PYTHON_PACKAGE)/weir/_weir.abi3.so
	@WEIR_BIN=$(WEIR_OF_TESTS) PYTHONPATH=$(PYTHON_PACKAGE) $(STEP) "tests of the Python package" \
		$(PYTHON_TOOLS)/bin/python -m unittest discover --start-directory python/tests
	@$(STEP) "types of the Python package" $(PYTHON_TOOLS)/bin/mypy --config-file python/pyproject.toml python/weir python/tests python/examples

demo: setup ## Set-up, a build without figures as PNG and PDF, Parquet and `weir top`, and an experiment with emulated hosts; needs no root and no NIC
	@$(STEP) "build for the demo" $(CARGO) build --profile demo -p weir --no-default-features --features dpdk
	@$(abspath $(TARGET))/demo/weir demo

sim: ## Virtual time alone, with Rust and cc: build without DPDK, and the ring of the GFC paper under four flow controls
	@$(STEP) "build without DPDK" $(CARGO) build -p weir --no-default-features --profile $(SIM_PROFILE) --target-dir $(SIM_TARGET)
	@$(SIM_WEIR) testbed run scenarios/gfc-ring.toml --backend sim --output runs/gfc-ring-sim

check: lint ## Between edits: lint, and the libraries' own tests
	@$(STEP) "the libraries' own tests" $(CARGO) test --quiet --workspace --lib

# Nothing is built a second time here, and what Cargo keeps for that takes time and disk. Without line tables a fifth less of the
# compiler's time goes to Weir's crates, and a test that fails names its line all the same.
test: export CARGO_INCREMENTAL ?= 0
test: export CARGO_PROFILE_DEV_DEBUG ?= 0
test: setup lint beside by-the-clock ## Set-up, then every check and test
	@echo "all checks and tests passed"

# Wire tests wait for most of their time: for a guest's boot, for a pause's end. All tests that need no idle machine have the CPUs
# meanwhile. The command where Cargo leaves it is that of one build at a time, so that builds of it follow each other; once the last is
# there, what uses one CPU runs beside what leaves one idle at its end.
beside: venv command-of-tests
	@scripts/side-by-side "$(MAKE) --no-print-directory wire-tests-of-that" \
		"$(MAKE) --no-print-directory beside-unit sim-check beside-python release-build beside-without-assertions"

beside-unit:
	@scripts/side-by-side "$(MAKE) --no-print-directory unit" "$(MAKE) --no-print-directory docs loom"

# The Python package uses one CPU.
beside-python:
	@scripts/side-by-side "$(MAKE) --no-print-directory python-test-of-that" "$(MAKE) --no-print-directory fuzz-cases"

beside-without-assertions:
	@scripts/side-by-side "$(MAKE) --no-print-directory release-tests-together papers-verdicts" \
		"$(MAKE) --no-print-directory instructions"

# Tests that are held against the clock have no other work beside them. Tests that keep one CPU busy run two at a time: Weir's lcores take the first
# CPU of those that they may have, and what runs beside the wire tests, which is programs without others to wait for, may have the last.
# The examples fit their clock to one CPU.
by-the-clock: venv command-of-tests by-the-clock-on-one-cpu by-the-clock-alone

FIRST_CPU = $(shell taskset --cpu-list --pid $$$$ | grep --only-matching '[0-9]*' | sed --quiet 2p)
LAST_CPU = $(shell taskset --cpu-list --pid $$$$ | grep --only-matching '[0-9]*$$')
by-the-clock-on-one-cpu:
	@scripts/side-by-side '$(WIRE_TESTS) $(STEP) "wire tests by the clock, on one CPU" $(PYTEST) -m "idle_machine and one_cpu"; \
			wire=$$?; taskset --cpu-list $(FIRST_CPU) scripts/examples && exit $$wire' \
		"taskset --cpu-list $(LAST_CPU) $(MAKE) --no-print-directory release-tests-by-the-clock"

by-the-clock-alone:
	@$(WIRE_TESTS) $(STEP) "wire tests by the clock, alone" $(PYTEST) -m "idle_machine and not one_cpu"

lint: setup ## Formatting, language, clippy
	@$(STEP) "formatting" $(CARGO) fmt --all --check
	@$(STEP) "language" scripts/language-check
	@$(STEP) "clippy" $(CARGO) clippy --workspace --all-targets -- -D warnings
	@$(STEP) "dependencies" scripts/deny --if-there

deny: ## Licences, sources and advisories of dependencies, by cargo-deny, which it installs into target/ where it is missing (part of lint)
	@$(STEP) "dependencies" scripts/deny

# By clippy's compiler and its arguments, as `cargo clippy` passes them: what the lint step has checked is not checked once more.
docs: setup ## API documentation, without a warning
	@RUSTDOCFLAGS="-D warnings" RUSTC_WORKSPACE_WRAPPER=$$(rustc --print sysroot)/bin/clippy-driver \
		CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ $(STEP) "API documentation" $(CARGO) doc --workspace --no-deps

site: setup ## README and docs/ as a site in target/site: static, without a network, every link checked
	@$(STEP) "site" $(CARGO) run --quiet -p weir --bin weir -- pages --site $(TARGET)/site

unit: setup ## Tests of all crates
	@$(STEP) "tests of all crates" $(CARGO) test --workspace

# Of the whole workspace, so that the build is that of all crates' tests.
fuzz-cases: setup
	@$(STEP) "random inputs of fuzz targets" $(CARGO) test --workspace --test fuzz -- --ignored

# Ten minutes, without the build.
FUZZ_SECONDS ?= 600
fuzz: setup ## Switch and readers under libFuzzer for FUZZ_SECONDS; target/fuzz keeps the inputs (test runs random ones)
	@$(STEP) "fuzz targets under libFuzzer" scripts/fuzz $(TARGET)/fuzz $(FUZZ_SECONDS)

papers: setup ## The papers' experiments, quick: each comes to its verdict, and to another one under each mutation (test runs the short ones)
	@$(STEP) "the papers' experiments, and mutations" $(CARGO) test $(HEAVY) --test commands papers:: -- --ignored --skip short_ones

papers-verdicts: setup
	@$(STEP) "the papers' experiments" $(CARGO) test $(HEAVY) --test commands papers:: -- --ignored --skip mutation

examples: command-of-tests ## Programs of one's own with kinds that Weir does not have, on both backends (examples/)
	@$(STEP) "examples" scripts/examples

sim-check: setup
	@$(STEP) "what virtual time needs" scripts/sim-needs
	@$(STEP) "virtual time alone, checked in a clean root" scripts/clean-root cargo check --quiet -p weir --no-default-features --target-dir $(TARGET)

sim-test: sim-check ## make sim in a root that has Rust, cc and make alone, where test checks the code; it writes nothing, and is quick after unit (root or user namespaces)
	@$(STEP) "virtual time in a clean root" scripts/clean-root make sim SIM_TARGET=$(TARGET) SIM_PROFILE=dev

loom: setup ## What lcores share, under every interleaving
	@RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom $(STEP) "loom models" \
		$(CARGO) test -p weir-mmu -p weir-flowctl -p weir-switch-core --profile loom --lib loom_models

release-build: setup
	@$(STEP) "build of tests without assertions" $(CARGO) test $(HEAVY) --test it --test commands --no-run

release-tests: release-tests-together release-tests-by-the-clock ## Without assertions, as users run it: heavy traffic, both backends by the clock, allocations

# Tests that are the same with assertions and without are among those of all crates.
release-tests-together: setup
	@$(STEP) "tests without assertions" $(CARGO) test $(HEAVY) --test it -- allocation:: clones:: fabric:: fidelity:: incast:: workloads::

release-tests-by-the-clock: setup
	@$(STEP) "tests without assertions by the clock" $(CARGO) test $(HEAVY) --test it by_the_clock::

conservation: setup ## Ten million frames of an incast in each layout under each buffer policy: none lost, none reordered (minutes; no part of test)
	@$(STEP) "conservation" $(CARGO) test $(HEAVY) --test it every_layout_under_every_policy -- --ignored --nocapture

instructions: setup ## What a packet-hop in virtual time and a packet on DPDK take, counted in instructions, against limits
	@$(STEP) "instructions of virtual time" $(CARGO) bench --profile dev $(HEAVY) --bench virtual_time -- --instructions
	@$(STEP) "instructions of the packet path" $(CARGO) bench --profile dev $(HEAVY) --bench forwarding -- --instructions
	@$(STEP) "instructions of load balancing" $(CARGO) bench --profile dev $(HEAVY) --bench load_balancing

wire-tests: wire-tests-together wire-tests-by-the-clock ## Frames judged by other programs: scapy, tshark, Linux

command-of-tests: setup nic-model
	@$(STEP) "build of tests" $(CARGO) test --workspace --no-run
	@mkdir -p $(dir $(WEIR_OF_TESTS)) && cp $(TARGET)/debug/weir $(TARGET)/debug/weir-dpdk $(dir $(WEIR_OF_TESTS))

wire-tests-together: venv command-of-tests wire-tests-of-that

wire-tests-of-that:
	@$(WIRE_TESTS) $(STEP) "wire tests, side by side" $(PYTEST) -m "not idle_machine" -n $(WIRE_WORKERS) --dist loadfile --no-loadscope-reorder

wire-tests-by-the-clock: venv command-of-tests
	@$(WIRE_TESTS) $(STEP) "wire tests by the clock, alone" $(PYTEST) -m idle_machine

pci-test: build venv ## NICs behind an IOMMU, in a guest under QEMU that Debian's packages make (no root; part of wire-tests)
	@WEIR_BIN=$(WEIR) $(STEP) "PCI NICs in a guest" $(PYTHON) -m pytest -c lab/pytest.ini lab/tests/test_pci.py

nic-test: build venv nic-model ## DPDK's drivers for 82599, 82576 and I225 on emulated NICs (x86-64; root or user namespaces; part of wire-tests)
	@WEIR_BIN=$(WEIR) WEIR_EMULATED_NIC=$(NIC_MODEL) $(STEP) "drivers on emulated NICs" \
		$(PYTHON) -m pytest -c lab/pytest.ini $(addprefix lab/tests/test_nic_,driver.py frames.py losses.py pfc_on_time.py)

# It decodes instructions of x86-64 alone; elsewhere its tests are skipped.
nic-model: setup
	@if [ "$$(uname -m)" = x86_64 ]; then $(MAKE) --no-print-directory $(NIC_MODEL) $(NIC_RULES); fi

$(NIC_MODEL): $(wildcard dpdk-io/emulated-nic/*.[ch])
	@mkdir -p $(dir $@)
	@$(STEP) "emulated NICs" $(CC) $(NIC_MODEL_FLAGS) -fPIC -shared -o $@ $(filter %.c,$^)

$(NIC_RULES): $(wildcard dpdk-io/emulated-nic/*.[ch] dpdk-io/emulated-nic/tests/*.c)
	@mkdir -p $(dir $@)
	@$(STEP) "rules of emulated NICs" $(CC) $(NIC_MODEL_FLAGS) -o $@ $(filter %.c,$^)

slurm-test: setup ## A sweep, a farm and a map as job arrays on a Slurm cluster of one node, this machine (root; apt-get install slurm-wlm)
	@WEIR_SLURM=1 $(STEP) "a sweep, a farm and a map on Slurm" $(CARGO) test -p weir --test commands sweep_slurm::

venv: setup ## .venv with the Python packages of the wire tests
	@$(STEP) "Python packages of the wire tests" scripts/make-venv .venv lab/requirements.txt

lab: build ## Namespaces as hosts, joined by the switch: ping and iperf3 (root)
	@$(AS_ROOT) python3 lab/lab.py run --weir $(WEIR) --hosts 2
	@$(AS_ROOT) python3 lab/lab.py run --weir $(WEIR) --hosts 4

# An ended soak goes on with more HOURS, and a new one begins without runs/soak.
HOURS ?= 1
soak: build nic-model ## A switch under load and disturbances for HOURS, on each kind of port, its frames counted at both ends; goes on where it ended; writes runs/soak/soak.md (root)
	@$(STEP) "soak" $(AS_ROOT) env WEIR_BIN=$(WEIR) WEIR_EMULATED_NIC=$(NIC_MODEL) python3 lab/soak.py --hours $(HOURS) $(if $(SEED),--seed $(SEED))

bench: build ## Benchmarks: the MMU, flow control, virtual time (beside HPCC's simulator and htsim, see bench-simulators), forwarding beside testpmd, delays of PAUSE
	@$(STEP) "benchmark of the MMU" $(CARGO) bench -p weir-mmu --bench admit_release
	@$(STEP) "benchmark of flow control" $(CARGO) bench -p weir-flowctl --bench decisions
	@$(STEP) "benchmark of virtual time" $(CARGO) bench -p weir-sim --bench virtual_time
	@$(BESIDE_SIMULATORS)
	@$(STEP) "benchmark of netdev ports" $(CARGO) bench -p weir-dpdk-io --bench netdev
	@$(STEP) "benchmarks on DPDK" $(CARGO) bench -p weir-bench
	@$(STEP) "delays of PAUSE" $(WEIR) bench pause

# WEIR_HPCC, WEIR_HTSIM and WEIR_HTSIM_UEC, of the environment or the command line, name their programs.
ROUNDS ?= 1
BESIDE_SIMULATORS = $(STEP) "virtual time beside other simulators" scripts/beside-simulators $(TARGET)/peers --weir $(WEIR) --rounds $(ROUNDS)

bench-simulators: build ## Virtual time beside HPCC's simulator and htsim on the same messages, CPU time and memory; run where WEIR_HPCC=PROGRAM, WEIR_HTSIM=PROGRAM, WEIR_HTSIM_UEC=PROGRAM name them, built
	@$(BESIDE_SIMULATORS)

bench-peers: setup ## Forwarding and latency beside testpmd, and beside l3fwd and Open vSwitch where WEIR_L3FWD=DIR, WEIR_L3FWD_64=DIR, WEIR_OPENVSWITCH=DIR name them, on the same ports in turn
	@$(STEP) "forwarding beside its peers" $(CARGO) bench -p weir-bench --bench forwarding -- --peers
	@$(STEP) "latency beside its peers" $(CARGO) bench -p weir-bench --bench forwarding -- --latency

bench-scaling: build ## Rates by number of CPUs: lcores on one buffer, with ports of their own and across; delays of PAUSE; virtual time by threads. 16 CPUs: 8 minutes
	@$(STEP) "lcores with ports of their own" $(WEIR) bench forwarding $(SCALED)
	@$(STEP) "lcores that send on others' ports" $(WEIR) bench forwarding $(SCALED) --across
	@$(STEP) "delays of PAUSE" $(WEIR) bench pause
	@for threads in 1 2 4 8 16; do \
		[ $$threads -gt $$(nproc) ] || $(STEP) "virtual time, threads: $$threads" \
			$(CARGO) bench -p weir-sim --bench virtual_time -- leaf-spine-256 --threads=exactly-$$threads || exit 1; \
	done

SCALED := --case stations,two-classes --frame-bytes 64 --rounds 3 --duration 500ms

clean: ## Remove what was built and the Python environment
	@$(CARGO) clean
	@rm -rf .venv
