# Targets for people; CONTRIBUTING.md explains them. Everything built or fetched is cached in $HAGANE_CACHE
# (~/.cache/hagane) and target/.
.PHONY: demo demo-down lab-shell check test test-long generate xtask prerequisites

CARGO ?= cargo
XTASK = $(CARGO) xtask

# The whole road: a lab, machines, hosts, a Kubernetes cluster.
demo: xtask
	@$(XTASK) demo up

demo-down: xtask
	@$(XTASK) demo down

# A shell inside the demo's lab: kubectl, virsh and ssh reach everything there.
lab-shell: xtask
	@$(XTASK) lab shell --id demo

# No root needed: format, lint, generated files, unit and in-process tests.
check: xtask
	@$(XTASK) check

# check, and the tests that need root: libvirt, container hosts, a Debian VM, the real cluster.
test: xtask
	@$(XTASK) test

# test, and crash and scale matrices, peers, benchmarks.
test-long: xtask
	@$(XTASK) test --long

# Writes CRDs, reference pages and the crate graph again.
generate: xtask
	@$(XTASK) generate

# Built first and aloud: `cargo xtask` itself is quiet, and the first build takes minutes.
xtask: prerequisites
	@$(CARGO) build --locked --package xtask

prerequisites:
	@sh scripts/prerequisites.sh
