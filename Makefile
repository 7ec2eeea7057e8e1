# kube-migrator. `make help` lists the targets. Everything needs Go and git alone.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/kube-migrator/kube-migrator/internal/cli.version=$(VERSION)

# Without this tag, etcd's client brings golang.org/x/net/trace, whose templates call methods by name: the linker then keeps every exported
# method of every type, which are 10 MiB. A test in internal/policy sees to it.
TAGS := grpcnotrace

# Real binaries, built once into a cache folder: release/command.
DEMO_BINARIES := v1.37.0/etcd v1.37.0/kube-apiserver v1.37.0/kubectl
TEST_BINARIES := $(DEMO_BINARIES) v1.36.3/etcd v1.36.3/kube-apiserver
RELEASE_BINARIES := $(TEST_BINARIES) $(addsuffix /kube-apiserver,v1.30.14 v1.31.14 v1.32.13 v1.33.13 v1.34.4 v1.35.4)
NODE_BINARIES := $(addprefix v1.37.0/,etcd kube-apiserver kubectl kubelet kube-proxy kube-controller-manager kube-scheduler)
BENCH_BINARIES := $(DEMO_BINARIES) v1.37.0/kube-controller-manager
TESTBED_BUILD := go run ./internal/testbed/cmd/testbed-build

# A lint run with a module file of its own: the linter's dependencies never reach our go.mod.
LINT := go tool -modfile=tools/go.mod golangci-lint

# The image and the file that it is written to: an OCI image layout for both platforms.
IMAGE ?= kube-migrator:$(VERSION)
IMAGE_TAR ?= dist/kube-migrator-$(VERSION).tar

# Tests that give several API servers a network and a host name each need root, if only in a user namespace.
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),unshare --user --map-root-user)

# Arguments for the benchmark, e.g. BENCH_ARGS='--objects=1000 --rounds=1'.
BENCH_ARGS ?=

##@ Use

.PHONY: build
build: ## build bin/kube-migrator
	CGO_ENABLED=0 go build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/kube-migrator.new$$$$ ./cmd/kube-migrator && mv -f bin/kube-migrator.new$$$$ bin/kube-migrator

.PHONY: build-api-migrator
build-api-migrator: ## build bin/api-migrator, for authors of operators
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/api-migrator.new$$$$ ./cmd/api-migrator && mv -f bin/api-migrator.new$$$$ bin/api-migrator

.PHONY: image
image: ## an OCI image for amd64 and arm64 in dist/, without Docker; `ctr images import` and `kind load image-archive` read it
	@mkdir -p bin $(dir $(IMAGE_TAR)); new=$$(mktemp -d bin/image.XXXXXX); trap 'rm -rf "$$new"' EXIT; \
	for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch CGO_ENABLED=0 go build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o "$$new/$$arch" ./cmd/kube-migrator; \
	done; \
	go -C tools build -o "$$PWD/$$new/image" ./image; \
	"$$new/image" --name '$(IMAGE)' --output '$(IMAGE_TAR)' "linux/amd64=$$new/amd64" "linux/arm64=$$new/arm64"

.PHONY: demo
demo: build ## a real control plane with old data: upgrade it, migrate it, show the proof
	@$(TESTBED_BUILD) $(DEMO_BINARIES) >/dev/null
	@go build -o bin/demo.$$$$ ./test/demo && mv -f bin/demo.$$$$ bin/demo && exec bin/demo --binary=bin/kube-migrator

##@ Develop

# Two packages at a time: beside test/e2e, which takes nearly as long as all others together, first those whose tests wait too, then
# internal/apimigration/move, which only compiles, at a low priority.
# Results are never cached: tests run programs that they build, and go test does not know the sources of these.
.PHONY: test
test: ## all tests, against real API servers (some 19 minutes on 2 cores once those are built)
	@$(TESTBED_BUILD) $(TEST_BINARIES)
	go vet ./...
	$(AS_ROOT) go test -count 1 -vet off -ldflags=-w -timeout 40m -p 2 -parallel 4 ./test/e2e ./internal/worker ./internal/apimigration/crd ./internal/cli ./agreement ./internal/apimigration/move ./...

.PHONY: test-long
test-long: ## the tests that take longer too (build tag "long"); the first run builds kube-apiserver of eight releases
	@$(TESTBED_BUILD) $(RELEASE_BINARIES)
	go vet -tags long ./...
	$(AS_ROOT) go test -count 1 -tags long -timeout 120m -p 1 -parallel 4 ./...

.PHONY: test-node
test-node: ## the image's pods on a whole node, as root (build tag "node"; docs/testbed.md says what it needs)
	@$(TESTBED_BUILD) $(NODE_BINARIES)
	go vet -tags node ./test/node
	go -C tools test ./image
	go test -tags node -timeout 30m -count 1 -v ./test/node

.PHONY: lint
lint: ## golangci-lint with .golangci.yml (built on first use: minutes)
	$(LINT) run ./...
	cd tools && go tool golangci-lint run --config ../.golangci.yml ./...

.PHONY: fmt
fmt: ## format the code and sort its imports
	$(LINT) fmt ./...

.PHONY: generate
generate: ## write everything that is generated (docs/cli, docs/releases.md) and tidy the module files
	go generate ./...
	go mod tidy
	go -C tools mod tidy

.PHONY: decodable
decodable: ## ask real API servers what each release can decode, and write internal/upgrade/releases
	@$(TESTBED_BUILD) $(RELEASE_BINARIES)
	go run ./internal/upgrade/cmd/decodable internal/upgrade/releases

.PHONY: check-generated
check-generated: ## make generate must change nothing
	@state() { git status --porcelain --untracked-files=all; git diff HEAD; }; \
	before=$$(state); $(MAKE) generate; after=$$(state); \
	if [[ "$$before" != "$$after" ]]; then \
		echo 'make generate changed the tree; run it and commit the result:' >&2; git status --short >&2; git --no-pager diff --stat >&2; exit 1; \
	fi

.PHONY: check
check: check-generated lint test ## what CI runs: generated files are current, lint, test

.PHONY: bench
bench: build ## measure against the peers and the ceiling; writes bench/results (about half an hour)
	@$(TESTBED_BUILD) $(BENCH_BINARIES)
	go run ./bench $(BENCH_ARGS)

.PHONY: bench-node
bench-node: ## measure how long a default installation takes on a whole node, as root (about half an hour; docs/benchmarks.md)
	@$(TESTBED_BUILD) $(NODE_BINARIES)
	go vet -tags 'node bench' ./test/node
	go test -tags 'node bench' -timeout 120m -count 1 -v -run TestHowLongADefaultInstallationTakes ./test/node

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
