# kube-migrator. `make help` lists the targets. Everything needs Go and git alone.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# What install installs by default, as registry/name:tag@sha256:digest; make release fills it in. Empty: an image of the nodes, see IMAGE.
RELEASE_IMAGE ?=
LINKED := github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli
LDFLAGS := -s -w -X $(LINKED).version=$(VERSION) -X $(LINKED).releaseImage=$(RELEASE_IMAGE)

# Without this tag, etcd's client brings golang.org/x/net/trace, whose templates call methods by name: the linker then keeps every exported
# method of every type, which are 10 MiB. A test in test/policy sees to it.
TAGS := grpcnotrace

# Both binaries. Nothing in them tells of the folder that they were built in, or of the time.
BUILD_FLAGS := -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)'

# Real binaries, built once into a cache folder: release/command.
DEMO_BINARIES := v1.37.0/etcd v1.37.0/kube-apiserver v1.37.0/kubectl
TEST_BINARIES := $(DEMO_BINARIES) v1.36.3/etcd v1.36.3/kube-apiserver
CHART_BINARIES := v4.3.1/helm v3.16.0/promtool
CHAOS_BINARIES := $(TEST_BINARIES) v1.37.0/kube-apiserver-clock v1.36.3/kube-apiserver-clock
RELEASE_BINARIES := $(TEST_BINARIES) $(CHART_BINARIES) $(addsuffix /kube-apiserver,v1.30.14 v1.31.14 v1.32.13 v1.33.13 v1.34.4 v1.35.4)
NODE_BINARIES := $(addprefix v1.37.0/,etcd kube-apiserver kubectl kubelet kube-proxy kube-controller-manager kube-scheduler)
BENCH_BINARIES := $(DEMO_BINARIES) v1.37.0/kube-controller-manager v1.37.0/etcdctl
TESTBED_BUILD := go run ./internal/testbed/cmd/testbed-build

# The modules of this repository that make up go.work, as patterns of packages; docs/adr/0028-modules.md says why there are several.
PACKAGES := ./... ./api-migrator/... ./examples/... ./internal/testbed/... ./kube-migrator/... ./storageversion/genericserver/... ./test/...

# Tools with a module file of their own: their dependencies never reach a go.mod of ours.
TOOL := tools/run
LINT := $(TOOL) golangci-lint

# Licences that what we link may have: those that the CNCF allows without asking.
LICENCES := Apache-2.0,MIT,ISC,BSD-2-Clause,BSD-3-Clause,0BSD,Zlib

# A vulnerability database: a folder, such as a mirror of vuln.go.dev on a machine without internet. Empty: the Go team's.
VULNDB ?=

# The files of a release, and the binaries in its image: these cannot know the digest of the image, those that users get do.
RELEASE := dist/release
PACKED := dist/packed
# Platforms of the programs, and from where users download them. The image is for Linux only.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
DOWNLOADS ?= https://github.com/kube-migrator/kube-migrator/releases/download/$(VERSION)

# The image and the file that it is written to: an OCI image layout for both platforms. By default install takes an image of this name, from the node.
IMAGE ?= localhost/kube-migrator:$(VERSION)
IMAGE_TAR ?= dist/kube-migrator-$(VERSION).tar

# How many times a test that failed is run again by itself. CI has 1, because a shared machine may stop for seconds; it names such tests at the end.
RERUNS ?= 0
# $(call go_test,PACKAGES,FLAGS,COMMAND THAT RUNS IT): at the end, the three slowest tests of each package.
go_test = mkdir -p bin; : >bin/$@.reruns; code=0; $(3) $(TOOL) gotestsum --format pkgname-and-test-fails --hide-summary skipped \
	--jsonfile bin/$@.json --rerun-fails=$(RERUNS) --rerun-fails-max-failures=5 --rerun-fails-report=bin/$@.reruns \
	--packages '$(1)' -- $(2) || code=$$?; cat bin/$@.reruns; go -C tools run ./slowest "$$PWD/bin/$@.json"; exit $$code

# Tests that give several API servers a network and a host name each need root, if only in a user namespace.
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),unshare --user --map-root-user)

# A chaos run: how long faults are injected, and, where they are given, the seed of an earlier run and the kinds of faults (docs/reliability.md).
CHAOS_TIME ?= 10m
CHAOS_SEED ?=
CHAOS_FAULTS ?=
# How many times as often as usual the faults come that end no epoch.
CHAOS_RATE ?=
# balancer: the API servers are behind one address.
CHAOS_TOPOLOGY ?=

# What make bench measures: scenarios, separated by commas (all if empty), the rounds of each, and further arguments (docs/benchmarks.md).
SCENARIO ?=
ROUNDS ?= 3
BENCH_ARGS ?=

##@ Use

.PHONY: build
build: ## build bin/kube-migrator
	CGO_ENABLED=0 go build $(BUILD_FLAGS) -o bin/kube-migrator.new$$$$ ./kube-migrator && mv -f bin/kube-migrator.new$$$$ bin/kube-migrator

.PHONY: build-api-migrator
build-api-migrator: ## build bin/api-migrator, for authors of operators
	CGO_ENABLED=0 go build $(BUILD_FLAGS) -o bin/api-migrator.new$$$$ ./api-migrator && mv -f bin/api-migrator.new$$$$ bin/api-migrator

.PHONY: image
image: ## an OCI image for amd64 and arm64 in dist/, without Docker; `ctr images import` and `kind load image-archive` read it
	@mkdir -p bin $(dir $(IMAGE_TAR)); new=$$(mktemp -d bin/image.XXXXXX); trap 'rm -rf "$$new"' EXIT; \
	for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch CGO_ENABLED=0 go build $(BUILD_FLAGS) -o "$$new/$$arch" ./kube-migrator; \
	done; \
	go -C tools build -o "$$PWD/$$new/image" ./image; \
	"$$new/image" --name '$(IMAGE)' --output '$(IMAGE_TAR)' "linux/amd64=$$new/amd64" "linux/arm64=$$new/arm64"

.PHONY: demo
demo: build ## a real control plane with old data: upgrade it, migrate it, show the proof
	@$(TESTBED_BUILD) $(DEMO_BINARIES) >/dev/null
	@go build -o bin/demo.$$$$ ./kube-migrator/test/demo && mv -f bin/demo.$$$$ bin/demo && exec bin/demo --binary=bin/kube-migrator

.PHONY: record
record: build ## record the demo as docs/demo.svg, which README.md shows
	@$(TESTBED_BUILD) $(DEMO_BINARIES) >/dev/null
	@go build -o bin/demo ./kube-migrator/test/demo
	@go -C tools build -o ../bin/record ./record
	@bin/record --output docs/demo.svg --title 'A control plane with old objects is upgraded, migrated, and audited before and after' bin/demo --binary=bin/kube-migrator

##@ Develop

# Packages with tests, but for those whose tests all need a cluster or build programs.
QUICK = $(shell go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(PACKAGES) | \
	grep -vE '/kube-migrator/test/(e2e|agreement|demo)$$|/test/(apiserver|docs)$$')

.PHONY: test-quick
test-quick: ## tests without servers: unit, property, golden files, repository rules (a minute or two)
	@$(call go_test,$(QUICK),-short -vet off -ldflags=-w)

# Two packages at a time: next to kube-migrator/test/e2e, which takes longest, first those whose tests wait too, then api-migrator/internal/move,
# which compiles.
# Results are never cached: tests run programs that they build, and go test does not know the sources of these.
WITH_SERVERS = $(call go_test,./kube-migrator/test/e2e ./kube-migrator/internal/worker ./api-migrator/internal/crd ./kube-migrator/internal/cli \
	./kube-migrator/test/agreement ./api-migrator/internal/move $(PACKAGES),\
	-count 1 -vet off -ldflags=-w -timeout 60m -p 2 -parallel 4 $(1),$(AS_ROOT))

.PHONY: test
test: ## the tests that need nothing but Go and git, against real API servers of one release
	@$(TESTBED_BUILD) $(DEMO_BINARIES)
	@$(call WITH_SERVERS)

# A node mostly waits for pods. The commands of the README compile meanwhile.
.PHONY: test-all
test-all: ## what CI runs: with API servers of two releases, Helm, Chromium and a node too (build tag "all"; test-page, test-node, test-readme)
	@$(TESTBED_BUILD) $(TEST_BINARIES) $(CHART_BINARIES)
	go -C tools test ./...
	@$(call WITH_SERVERS,-tags all)
	$(MAKE) test-page
	$(MAKE) test-readme & readme=$$!; node=0; $(MAKE) test-node || node=$$?; wait $$readme; exit $$node

.PHONY: test-long
test-long: ## the tests that take longer too (build tag "long"), and bench-quick; the first run builds kube-apiserver of eight releases
	@$(TESTBED_BUILD) $(RELEASE_BINARIES)
	go vet -tags all,long $(PACKAGES)
	$(AS_ROOT) go test -count 1 -tags all,long -timeout 120m -p 1 -parallel 4 $(PACKAGES)
	@$(MAKE) fuzz
	@$(MAKE) bench-quick

# How long each fuzz target runs, and which: a pattern of "folder target". Inputs that fail are written to testdata/fuzz of the package; they are
# committed with the fix.
FUZZ_TIME ?= 60s
FUZZ ?= .

# go test -fuzz now and then fails at the end of its time with the words "context deadline exceeded" alone, which is no finding.
.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZ_TIME (60s), one after another
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	grep -rlE --include='*_test.go' '^func Fuzz' . | xargs grep -oE '^func Fuzz[A-Za-z0-9_]*' /dev/null | sed -E 's|/[^/]*:func | |' | sort -u | grep -E '$(FUZZ)' | \
	while read -r folder target; do \
		echo "$$folder $$target"; \
		go test "$$folder" -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 10x -parallel 1 </dev/null 2>&1 | \
			tee "$$log" || \
			{ grep -q '^ *context deadline exceeded$$' "$$log" && ! grep -qE 'Failing input|panic:' "$$log"; } || exit 1; \
	done

.PHONY: test-node
test-node: ## the image's pods on a whole node, as root (build tag "node"; docs/testbed.md says what it needs)
	@$(TESTBED_BUILD) $(NODE_BINARIES) $(CHART_BINARIES) v3.16.0/prometheus
	go vet -tags node ./test/node
	@$(call go_test,./test/node,-tags node -timeout 30m -count 1 -v)

.PHONY: test-page
test-page: ## the page of the dashboard in Chromium, with axe-core (build tag "page"; chromium and npm of Debian); screenshots in bin/page
	go vet -tags page ./kube-migrator/test/page
	@$(call go_test,./kube-migrator/test/page,-tags page -timeout 20m -count 1,PAGE_SCREENSHOTS="$$PWD/bin/page")
	@echo "screenshots: $$PWD/bin/page"

.PHONY: screenshots
screenshots: ## draw docs/dashboard.png in Chromium, as test-page does
	PAGE_SCREENSHOTS="$$PWD/bin/page" go test -tags page -count 1 -run '^TestThePictureOfTheDocumentation$$' ./kube-migrator/test/page
	cp bin/page/documentation.png docs/dashboard.png && chmod 644 docs/dashboard.png

.PHONY: test-readme
test-readme: ## the commands of README.md in a clone, in their order, and the modules as others install them (build tag "readme"; FRESH=1: with modules in the cache, and nothing built)
	@$(TESTBED_BUILD) $(DEMO_BINARIES)
	go vet -tags readme ./test/readme ./test/consumer
	@$(call go_test,./test/readme ./test/consumer,-tags readme -timeout 30m -count 1 -v)

.PHONY: chaos
chaos: ## faults of all kinds for CHAOS_TIME, judged past the API servers, as root with nft (build tag "chaos"; docs/reliability.md)
	@$(TESTBED_BUILD) $(CHAOS_BINARIES)
	go vet -tags chaos ./test/chaos
	CHAOS_TIME='$(CHAOS_TIME)' CHAOS_SEED='$(CHAOS_SEED)' CHAOS_FAULTS='$(CHAOS_FAULTS)' CHAOS_RATE='$(CHAOS_RATE)' \
		CHAOS_TOPOLOGY='$(CHAOS_TOPOLOGY)' \
		go test -tags chaos -timeout 0 -count 1 -vet off -v -run '^TestChaos$$' ./test/chaos

.PHONY: lint
lint: ## golangci-lint with .golangci.yml (built on first use: minutes)
	$(LINT) run $(PACKAGES)
	cd tools && go tool golangci-lint run --config ../.golangci.yml ./...

.PHONY: fmt
fmt: ## format the code and sort its imports
	$(LINT) fmt $(PACKAGES)

.PHONY: generate
generate: build build-api-migrator ## write everything that is generated (docs/cli, docs/api.md, docs/releases.md, the chart, config) and tidy the module files
	go generate $(PACKAGES)
	go -C tools run ./reference ../docs/cli "$$PWD/bin/kube-migrator" "$$PWD/bin/api-migrator"
	tools/tidy
	go -C tools mod tidy

.PHONY: decodable
decodable: ## ask real API servers what each release can decode, and write kube-migrator/internal/upgrade/releases
	@$(TESTBED_BUILD) $(RELEASE_BINARIES)
	go run ./kube-migrator/internal/upgrade/cmd/decodable kube-migrator/internal/upgrade/releases

# What make try-project tries: a module and its version, and what api-migrator plan is asked for. PLAN_ARGS are further arguments of it; BY_HAND is
# what you have found to be left. INTO is the document that gets the row; empty: print it.
MODULE ?=
KIND ?=
FROM ?=
TO ?=
PLAN_ARGS ?=
BY_HAND ?=
INTO ?= docs/api-migrator.md

.PHONY: try-project
try-project: build-api-migrator ## try api-migrator on a copy of a Go module: MODULE=path@version KIND=… FROM=group/version TO=… (docs/api-migrator.md)
	@go run ./api-migrator/internal/cmd/try-project --binary bin/api-migrator --module '$(MODULE)' --kind '$(KIND)' --from '$(FROM)' --to '$(TO)' \
		--by-hand '$(BY_HAND)' --into '$(INTO)' -- $(PLAN_ARGS)

.PHONY: check-generated
check-generated: ## make generate must change nothing
	@state() { git status --porcelain --untracked-files=all; git diff HEAD; }; \
	before=$$(state); $(MAKE) generate; after=$$(state); \
	if [[ "$$before" != "$$after" ]]; then \
		echo 'make generate changed the tree; run it and commit the result:' >&2; git status --short >&2; git --no-pager diff --stat >&2; exit 1; \
	fi

.PHONY: check
check: check-generated lint test ## before you propose a change: generated files are current, lint, test

.PHONY: bench
bench: build ## measure against the peers and the ceiling; writes bin/bench (hours for all; SCENARIO=S1 ROUNDS=3; docs/benchmarks.md)
	@$(TESTBED_BUILD) $(BENCH_BINARIES)
	go run ./test/bench --scenario='$(SCENARIO)' --rounds='$(ROUNDS)' $(BENCH_ARGS)

.PHONY: bench-quick
bench-quick: build ## every scenario of the benchmark with few objects: shows that it works, measures nothing; writes bin/bench-quick
	@$(TESTBED_BUILD) $(BENCH_BINARIES)
	go run ./test/bench --quick --output=bin/bench-quick --scenario='$(SCENARIO)' $(BENCH_ARGS)

.PHONY: bench-go
bench-go: ## Go's benchmarks of hot paths, here and at the commit BASE=HEAD, compared by benchstat
	rm -rf bin/bench-go && mkdir -p bin/bench-go
	git archive $(or $(BASE),HEAD) | tar -x -C bin/bench-go --one-top-level=base
	cd bin/bench-go/base && go test -run - -bench . -count 10 ./migrate ./internal/pace > ../base.txt
	go test -run - -bench . -count 10 ./migrate ./internal/pace > bin/bench-go/here.txt
	rm -r bin/bench-go/base
	$(TOOL) benchstat base=bin/bench-go/base.txt here=bin/bench-go/here.txt

.PHONY: bench-node
bench-node: ## measure how long a default installation takes on a whole node, as root (about a quarter of an hour; docs/benchmarks.md)
	@$(TESTBED_BUILD) $(NODE_BINARIES)
	go vet -tags 'node bench' ./test/node
	go test -tags 'node bench' -timeout 120m -count 1 -v -run TestHowLongADefaultInstallationTakes ./test/node

##@ Release

.PHONY: release
release: ## archives for PLATFORMS, their SBOMs, the image, the chart, krew's manifest and checksums, in dist/release
	@rm -rf $(RELEASE) $(PACKED) && mkdir -p $(RELEASE) $(PACKED) bin; tools=$$(mktemp -d bin/release.XXXXXX); trap 'rm -rf "$$tools"' EXIT; \
	go -C tools build -o "$$PWD/$$tools/" ./dist ./image ./sbom; \
	for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch CGO_ENABLED=0 go build $(BUILD_FLAGS) -o $(PACKED)/$$arch ./kube-migrator; \
	done; \
	"$$tools/image" --name '$(IMAGE)' --command kube-migrator --output $(RELEASE)/kube-migrator-image.tar --digest "$$tools/digest" \
		linux/amd64=$(PACKED)/amd64 linux/arm64=$(PACKED)/arm64; \
	image='$(IMAGE)'@$$(cat "$$tools/digest"); if [[ $$image == localhost/* ]]; then image=; fi; \
	linked="$(LDFLAGS) -X $(LINKED).releaseImage=$$image"; folders=(); \
	for platform in $(PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/}; folder=$(PACKED)/$$os-$$arch; folders+=("$$platform=$$folder"); \
		suffix=; if [[ $$os == windows ]]; then suffix=.exe; fi; \
		for command in kube-migrator api-migrator; do \
			GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build $(BUILD_FLAGS) -ldflags "$$linked" -o "$$folder/$$command$$suffix" ./$$command; \
			"$$tools/sbom" --binary "$$folder/$$command$$suffix" --version '$(VERSION)' --output "$(RELEASE)/$$command-$$os-$$arch.spdx.json"; \
		done; \
	done; \
	"$$tools/dist" --version '$(VERSION)' --image "$$image" --root . --output $(RELEASE) --url '$(DOWNLOADS)' "$${folders[@]}"; \
	$(TOOL) validate-krew-manifest -skip-install -manifest $(RELEASE)/migrator.yaml 2>"$$tools/krew" || { cat "$$tools/krew" >&2; exit 1; }; \
	cd $(RELEASE) && sha256sum -- * >SHA256SUMS

.PHONY: push-image
push-image: ## push the image of make release under IMAGE, and print its digest
	@go -C tools run ./image --name '$(IMAGE)' --command kube-migrator --push \
		linux/amd64="$$PWD/$(PACKED)/amd64" linux/arm64="$$PWD/$(PACKED)/arm64"

.PHONY: check-reproducible
check-reproducible: PLATFORMS := linux/amd64 linux/arm64
check-reproducible: ## make a release of the last commit twice, in two folders, and compare every byte (FRESH=1: the second with an empty build cache)
	@folder=$$(mktemp -d); trap 'chmod -R u+w "$$folder"; rm -rf "$$folder"' EXIT; \
	for copy in one another/one; do \
		git clone --quiet . "$$folder/$$copy"; mkdir "$$folder/$$copy/tmp"; \
		if [[ "$(FRESH)" && $$copy == another/one ]]; then export GOCACHE="$$folder/cache"; fi; \
		TMPDIR="$$folder/$$copy/tmp" $(MAKE) -C "$$folder/$$copy" release VERSION='$(VERSION)' IMAGE='$(IMAGE)' PLATFORMS='$(PLATFORMS)'; \
	done; \
	diff --recursive "$$folder/one/$(RELEASE)" "$$folder/another/one/$(RELEASE)"; \
	echo "the same bytes twice:"; cat "$$folder/one/$(RELEASE)/SHA256SUMS"

.PHONY: site
site: ## the documentation as a site, in dist/site; mkdocs is in the Debian package mkdocs-material
	@mkdocs build --quiet --strict && echo 'dist/site/index.html'

.PHONY: changelog
changelog: ## prepare the commit of VERSION, such as VERSION=v0.1.0: gather changelog/unreleased on its page, require it in every go.mod
	@if ! [[ '$(VERSION)' =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-rc\.[0-9]+)?$$ ]]; then \
		echo 'error: $(VERSION) is no version of a release' >&2; echo 'Try: make changelog VERSION=v0.1.0' >&2; exit 1; \
	fi; \
	if git rev-parse --quiet --verify 'refs/tags/$(VERSION)' >/dev/null; then \
		echo 'error: $(VERSION) is released' >&2; echo 'Try: git tag --list --sort=-version:refname' >&2; exit 1; \
	fi; \
	page=changelog/$(VERSION).md; shopt -s nullglob; fragments=(changelog/unreleased/*.md); \
	title='# $(VERSION)'; if [[ -e $$page ]]; then title=; fi; \
	{ printf '%s\n' "$$title"; if [[ $$title ]]; then echo; fi; cat "$${fragments[@]}" /dev/null; } >>"$$page"; rm -f "$${fragments[@]}"; \
	tools/require '$(VERSION)'; tags='$(VERSION)'; \
	for module in api-migrator internal/testbed kube-migrator storageversion/genericserver; do tags+=" $$module/$(VERSION)"; done; \
	echo "$$page has the changes, and every go.mod requires $(VERSION) of the others; edit and commit it, and tag that commit for each module:"; \
	echo "for tag in $$tags; do git tag \"\$$tag\"; done"

.PHONY: licences
licences: ## the licences of all modules that the binaries are linked with are allowed
	@$(TOOL) go-licenses check ./kube-migrator ./api-migrator --ignore github.com/kube-migrator --allowed_licenses='$(LICENCES)' --logtostderr=false --stderrthreshold=ERROR --log_file=/dev/null && echo 'all licences are among $(LICENCES)'

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what the binaries call; VULNDB=FOLDER names a copy of the database
	@code=0; $(TOOL) govulncheck $(if $(VULNDB),-db 'file://$(abspath $(VULNDB))') ./kube-migrator ./api-migrator || code=$$?; \
	if (( code != 0 && code != 3 )); then \
		echo 'error: nothing was checked: the vulnerability database $(or $(VULNDB),of the Go team) cannot be read' >&2; \
		echo 'Try: make vulncheck VULNDB=FOLDER' >&2; \
	fi; exit $$code

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
