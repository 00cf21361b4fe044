# Everything a contributor runs. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
TOOL := $(GO) tool -modfile=hack/tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
FUZZTIME ?= 10s

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed 's/:.*## /\t/' | column -t -s '	'

.PHONY: build
build: ## Build bin/holdfast and bin/kubectl-holdfast
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/holdfast ./cmd/holdfast
	ln -sfn holdfast bin/kubectl-holdfast

.PHONY: demo
demo: ## Show a report without a cluster, a cloud or a network
	$(GO) run ./cmd/holdfast demo

.PHONY: test
test: ## Run all tests; installs and starts what they need
	hack/test.sh

.PHONY: bench
bench: ## Measure speed and memory; prints ratios
	hack/bench.sh

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	hack/fuzz.sh $(FUZZTIME)

.PHONY: golden
golden: ## Rewrite golden files from what the code does now
	$(GO) test ./report/... ./policies/... ./detector/... ./cmd/... -update

.PHONY: generate
generate: ## Rewrite generated files
	$(GO) generate ./...

.PHONY: lint
lint: ## Lint, with the import arrows
	$(TOOL) golangci-lint run ./...

.PHONY: verify
verify: generate ## Fail if generated files or modules are not up to date
	$(GO) mod tidy -diff
	$(GO) mod verify
	git diff --exit-code
	test -z "$$(git status --porcelain)"
