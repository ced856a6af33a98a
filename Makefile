# Targets for people; CONTRIBUTING.md explains them. Everything built or fetched is cached in $HAGANE_CACHE
# (~/.cache/hagane) and target/.
.PHONY: demo demo-down lab-shell check test test-long generate prerequisites packages

CARGO ?= cargo
XTASK = $(CARGO) xtask

# The whole road: a lab, machines, hosts, a Kubernetes cluster.
demo: prerequisites
	@$(XTASK) demo up

demo-down: prerequisites
	@$(XTASK) demo down

# A shell inside the demo's lab: kubectl, virsh and ssh reach everything there.
lab-shell: prerequisites
	@$(XTASK) lab shell --id demo

# No root needed: format, lint, generated files, unit and in-process tests.
check: prerequisites
	@$(XTASK) check

# check, and the tests that need root: libvirt, container hosts, a Debian VM, the real cluster.
test: prerequisites
	@$(XTASK) test

# test, and crash and scale matrices, peers, benchmarks.
test-long: prerequisites
	@$(XTASK) test --long

# Writes CRDs, reference pages and the crate graph again.
generate: prerequisites
	@$(XTASK) generate

prerequisites:
	@sh scripts/prerequisites.sh
