# The targets share .tools/, so they run one after the other.
.NOTPARALLEL:
.DEFAULT_GOAL := help

ENGINE ?= sqlite
ARCH   ?= arm64

# The folders with a go.mod. CONTRIBUTING.md says when there is one more.
MODULES = . bench tests/deploy tests/reference tools

# in runs a command in each of the folders.
in = @for module in $(1); do (cd $$module && set -x && $(2)) || exit; done

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: demo
demo: demo-$(ENGINE) ## Run the three jobs and check them; ENGINE=sqlite (default) or dynamodb

.PHONY: demo-sqlite
demo-sqlite:
	go run ./cmd/oncebox demo

.PHONY: demo-dynamodb
demo-dynamodb:
	@scripts/install-tools dynoxide kinesis-mock
	scripts/with-engine dynoxide -- scripts/with-engine kinesis-mock -- go run ./cmd/oncebox --store dynamodb: demo

demo-%:
	@echo 'ENGINE=$*: use sqlite or dynamodb' >&2; exit 1

# Many tests wait: for time-outs, for retries of the SDK, for processes. So more of them run at a time than there are cores.
# The packages whose tests wait longest come first, so that none of them runs alone at the end.
TESTFLAGS = -shuffle=on -count=1 -p=3 -parallel=8
PACKAGES  = ./tests/... ./cmd/... ./...

# Collecting garbage takes a fifth of the time of a test, and a third of the time of a link. With these settings there is
# little of it, as long as a process has less than 2 GiB.
FEWGCS = GOGC=400 GOMEMLIMIT=2GiB

# Without tables for debuggers, a link takes two thirds of the time. `make lint` vets all packages, so tests need not.
GOTEST = $(FEWGCS) go test -vet=off -ldflags='-s -w' $(TESTFLAGS)

.PHONY: test
test: ## Run the quick tests, in a few minutes: in memory, on SQLite and on dynoxide
	@scripts/install-tools dynoxide s3
	$(GOTEST) -short -timeout=30m $(PACKAGES)

# The race detector makes SQLite in Go 30 times slower, and finds nothing in simulations, where one goroutine runs at a
# time, nor in packages without a goroutine, a channel, a lock or an atomic. So it checks the quick tests of the other
# libraries, which run in memory or over HTTP.
NOTRACED = /(sqlite|sqlitestore|sqlitetest|offline|dedupefault|logfault|cli|cli/(claims|delivery|demo|idempotency|links|operate|records))$$
SHARING  = ^[[:space:]]*go |\<(sync|atomic|errgroup)\.|\<chan\>
RACED    = $(shell grep -rlE '$(SHARING)' --include=*.go ./pkg ./internal | xargs dirname | sort -u | grep -vE '$(NOTRACED)|/testdata')

.PHONY: check
check: tools lint ## Run lint and all tests, with all engines; the quick ones with the race detector, too
	$(GOTEST) -timeout=60m $(PACKAGES)
	$(call in,$(filter-out .,$(MODULES)),$(GOTEST) -timeout=60m ./...)
	$(GOTEST) -race -short -timeout=60m $(RACED)

.PHONY: repeat
repeat: tools ## Run the tests of both domains and their engines ten times
	go test -shuffle=on -count=10 -timeout=240m ./pkg/itembank/... ./pkg/dedupe/...

HISTORIES ?= 20000

# The packages whose tests draw at random with pgregory.net/rapid, and so have its flags.
DRAWING = $(shell go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./pkg/itembank/... ./pkg/dedupe/... \
  ./internal/testkit/itembankfault ./internal/testkit/dedupefault | sed -n 's,\.test .*pgregory.net/rapid .*,,p')

.PHONY: histories
histories: tools ## Search for errors for hours: HISTORIES=20000 random histories a test, and all faults
	ONCEBOX_PLAY=all go test -p=1 -count=1 -timeout=24h $(DRAWING) -rapid.checks=$(HISTORIES)

SEEDS ?= 100000
.PHONY: seeds
seeds: ## Play record histories and commands over files: SEEDS=100000, ten times as many of the log ledger and of idempotent calls; a seed decides all
	go test -count=1 -timeout=6h -run 'TestSeeds/memory$$|TestObjects$$' ./internal/testkit/dedupefault -seeds=$(SEEDS)
	go test -count=1 -timeout=6h -run 'TestHistories$$|TestVariants$$' ./internal/testkit/logfault -seeds=$(SEEDS)0
	go test -count=1 -timeout=6h -run 'TestHistories$$' ./internal/testkit/idempotencyfault -seeds=$(SEEDS)0
	go test -count=1 -timeout=6h -run 'TestCommands$$' ./internal/records/offline -seeds=$(SEEDS)

STORM ?= 200000
.PHONY: storm
storm: ## Play the dedupe function on the log ledger with faults and kills: STORM=200000 records
	@scripts/install-tools dynoxide
	ONCEBOX_REQUIRE=all go test -count=1 -v -timeout=6h -run '^TestStorm$$' ./tests -storm=$(STORM)

.PHONY: spec
spec: ## Check the model of idempotent calls with spin, and that it needs each of its rules
	@scripts/install-tools spin
	ONCEBOX_REQUIRE=all go test -count=1 -v -parallel=2 ./spec

.PHONY: lint
lint: ## Check the format and the code, the requirements, and the workflows of CI
	@scripts/install-tools golangci-lint actionlint
	$(call in,$(MODULES),$(FEWGCS) $(CURDIR)/.tools/bin/golangci-lint run)
	$(call in,$(MODULES),go mod tidy -diff)
	.tools/bin/actionlint -shellcheck= -pyflakes=

# Without infra: to follow the calls in the CDK takes more than 11 GB of memory.
.PHONY: audit
audit: ## Look for known vulnerabilities in what ships, with the database vuln.go.dev
	@scripts/install-tools govulncheck
	.tools/bin/govulncheck ./cmd/... ./functions/... ./pkg/...
	.tools/bin/govulncheck -C tools ./...

.PHONY: tidy
tidy: ## Tidy go.mod and go.sum of all modules
	$(call in,$(MODULES),go mod tidy)

.PHONY: tools
tools: ## Install the pinned tools into .tools/
	@scripts/install-tools

.PHONY: build
build: ## Build bin/oncebox
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/oncebox ./cmd/oncebox

.PHONY: release
release: ## Build what a tag publishes into dist/release; VERSION=v1.2.3, by default from git
	go run -C tools ./release '$(VERSION)' dist/release

.PHONY: templates
templates: ## Make the CloudFormation templates of a release into dist/templates; VERSION=v1.2.3
	go run ./infra/templates '$(VERSION:v%=%)' dist/templates

.PHONY: image
image: release ## Build the container image oncebox:VERSION of the release, with Docker
	scripts/build-image '$(VERSION)'

ZIPS = dist/claim.zip dist/sweep.zip dist/dedupe.zip dist/dedupe-full.zip

.PHONY: zip
zip: $(ZIPS) ## Build the functions for Lambda into dist/; ARCH=arm64 (default) or amd64

.PHONY: $(ZIPS)
$(ZIPS): dist/%.zip:
	scripts/build-function ./functions/$* $(ARCH) dist/$*/bootstrap
	go run -C tools ./zip ../$@ ../dist/$*/bootstrap

ROUNDS  ?= 51
SUBJECT ?= .

.PHONY: bench
bench: ## Run the benchmarks, each with a floor to compare with; SUBJECT=Start, or all
	@scripts/install-tools dynoxide dynamodb-local aws-lambda-rie redis duckdb powertools
	ONCEBOX_REQUIRE=all go test -C bench -run='^TestFigures.*($(SUBJECT))' -bench='$(SUBJECT)' -benchtime=$(ROUNDS)x \
		-timeout=60m

.PHONY: chart
chart: ## Draw docs/claims-chart.svg, what claims cost while banks are handed out, and docs/log-ledger-day.svg
	go test -C bench -run='^TestDraw$$' ./chart -target=../../docs/claims-chart
	go test -C bench -run='^TestDrawDay$$' ./chart -day=../../docs/log-ledger-day

.PHONY: picture
picture: ## Draw docs/picture/jobs.svg from jobs.d2
	cd tools/d2 && go tool d2 --omit-version ../../docs/picture/jobs.d2 ../../docs/picture/jobs.svg
	chmod 644 docs/picture/jobs.svg

.PHONY: recording
recording: build ## Record the demo: docs/picture/demo.cast, which asciinema plays, and demo.svg
	go run -C tools ./recording ../docs/picture/demo ../bin/oncebox demo

.PHONY: invoke
invoke: ## Give an event to its function in the Lambda emulator: EVENT=events/claim/claim-body.json
	@scripts/install-tools dynoxide aws-lambda-rie
	@scripts/invoke '$(EVENT)'

.PHONY: sam-invoke
sam-invoke: ## Do the same with SAM local, in a container with the settings of the stack
	@scripts/install-tools dynoxide python
	@scripts/sam invoke '$(EVENT)'

.PHONY: sam-api
sam-api: ## Serve the API of the stack with SAM local on 127.0.0.1; PORT=3000
	@scripts/install-tools dynoxide python
	@scripts/sam api

.PHONY: clean
clean: ## Remove bin/, dist/ and cdk.out/; .tools/ stays
	rm -rf bin dist cdk.out
