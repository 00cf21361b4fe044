# Everything a contributor runs. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
TOOL := $(GO) tool -modfile=hack/tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 10s
SOAK ?= 20m
PLATFORMS ?=

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed 's/:.*## /\t/' | column -t -s '	'

.PHONY: build
build: ## Build bin/holdfast and bin/kubectl-holdfast
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/holdfast ./cmd/holdfast
	ln -sfn holdfast bin/kubectl-holdfast

.PHONY: demo
demo: ## Show a report without a cluster, a cloud or a network
	$(GO) run ./cmd/holdfast demo

.PHONY: demo-live
demo-live: ## Watch drift being made, seen, repaired and replaced, on a real API server (two minutes)
	hack/demo-live.sh

.PHONY: first-hour
first-hour: ## Put up the world of docs/first-hour.md, and keep it until Ctrl-C
	hack/first-hour.sh

.PHONY: first-hour-test
first-hour-test: ## Do what docs/first-hour.md says, block by block (five minutes)
	hack/test.sh -v -run TestFirstHour ./test/demolive -firsthour.live

.PHONY: test
test: ## Run all tests; installs and starts what they need
	hack/test.sh

.PHONY: e2e
e2e: ## Run every acceptance test of the daemon, the long ones too (an hour)
	hack/test.sh ./test/e2e -e2e.all

.PHONY: faults
faults: ## Kill the daemon after every write on every path, and break every way for as long as it takes (an hour)
	hack/test.sh -v -timeout 3h -parallel 4 ./test/faults -faults.every

.PHONY: alerts
alerts: ## Have every alert fire and resolve in a real Prometheus, and run every query of the dashboards (ten minutes)
	hack/test.sh -v ./test/alerts -alerts.live

.PHONY: bench
bench: ## Measure speed and memory; prints ratios
	hack/bench.sh

.PHONY: soak
soak: ## Let things happen to the controller for SOAK, and see that it stays as it is
	hack/test.sh -run TestSoak -v -timeout 0 ./test/scale -soak $(SOAK)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	hack/fuzz.sh $(FUZZTIME)

.PHONY: gates
gates: ## Decide on a million random inputs, and check every gate (takes most of an hour)
	$(GO) test ./policies -run TestGatesProperty -gates.cases 1000000 -timeout 3h

.PHONY: golden
golden: ## Rewrite golden files from what the code does now
	$(GO) test ./report ./policies ./detector ./cmd/holdfast -update
	HOLDFAST_HELM=$$(hack/helm/build.sh 3) HOLDFAST_HELM4=$$(hack/helm/build.sh 4) $(GO) test ./test/chart -run 'TestGenerated|TestGolden' -update

.PHONY: generate
generate: ## Generate deep copies and CRDs from api/, and OpenReports' CRDs from the module in go.mod
	$(GO) tool -modfile=hack/tools/generate/go.mod controller-gen object paths=./api/v1alpha1 crd paths=./api/v1alpha1 output:crd:dir=api/crds
	cp api/crds/*.yaml charts/holdfast/files/crds/
	$(GO) tool -modfile=hack/tools/generate/go.mod controller-gen crd:maxDescLen=0 paths=github.com/openreports/reports-api/apis/openreports.io/v1alpha1 output:crd:dir=charts/holdfast/files/openreports

.PHONY: managed-crds
managed-crds: ## Write the CRDs that managed mode needs to dist/cluster-api-crds.yaml; FLAGS="-help" says what can be set
	mkdir -p dist
	$(GO) run ./hack/clusterapi/print $(FLAGS) >dist/cluster-api-crds.yaml

.PHONY: image
image: ## Make the container image as an OCI layout in dist/image, for all PLATFORMS; needs no Docker
	hack/image/run.sh layout dist/image $(PLATFORMS)

.PHONY: verify-image
verify-image: ## Make the image twice, in two folders, and fail unless it is the same and starts
	cd hack/image && GOWORK=off $(GO) vet . && GOWORK=off $(GO) test .
	hack/image/verify.sh $(PLATFORMS)

.PHONY: sbom
sbom: ## Write CycloneDX lists of what is in the image and in the released program to dist/sbom
	hack/release/sbom.sh dist/sbom

.PHONY: archives
archives: ## Pack the program for every platform into dist/archives, with man pages, completions and checksums
	. hack/release/vars.sh && $(GO) run ./hack/release archives "$$VERSION" dist/archives

.PHONY: krew
krew: ## Write krew's manifest of dist/archives to dist/krew
	mkdir -p dist/krew
	. hack/release/vars.sh && $(GO) run ./hack/release krew "$$VERSION" dist/archives >dist/krew/holdfast.yaml

.PHONY: man
man: ## Write manual pages to dist/man
	$(GO) run ./cmd/holdfast man dist/man

.PHONY: audit
audit: ## Look for known vulnerabilities and risky code; fail on what nobody has explained
	hack/audit/run.sh

.PHONY: lint-workflows
lint-workflows: ## Lint .github/workflows
	$(GO) tool -modfile=hack/tools/workflows/go.mod actionlint

.PHONY: lint
lint: ## Lint, with the import arrows
	$(TOOL) golangci-lint run ./...

.PHONY: verify-modules
verify-modules: ## Fail if go.mod is not tidy or a module was changed
	$(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: verify
verify: test lint verify-modules ## Everything that CI checks, and a clean tree
	test -z "$$(git status --porcelain)"
