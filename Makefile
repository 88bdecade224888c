# .tools/ is shared by all targets, so they run one after the other.
.NOTPARALLEL:
.DEFAULT_GOAL := help

ENGINE ?= sqlite
ARCH   ?= arm64

VERSION  = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GO_FILES = $(shell find . -name '*.go' -not -path './.*/*')

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: demo
demo: demo-$(ENGINE) ## Run the demo; ENGINE=sqlite (default) or dynamodb

.PHONY: demo-sqlite
demo-sqlite:
	go run ./cmd/oncebox demo

.PHONY: demo-dynamodb
demo-dynamodb:
	@scripts/install-tools dynoxide kinesis-mock
	scripts/with-engine dynoxide -- scripts/with-engine kinesis-mock -- go run ./cmd/oncebox --store dynamodb: demo

demo-%:
	@echo 'ENGINE=$*: there are sqlite and dynamodb' >&2; exit 1

.PHONY: test
test: tools lint ## Lint, then run all tests
	go test -race -shuffle=on -count=1 -timeout=15m ./...

.PHONY: repeat
repeat: tools ## Run the conformance suites ten times
	go test -race -shuffle=on -count=10 -timeout=60m ./pkg/itembank/...

HISTORIES ?= 20000

.PHONY: histories
histories: tools ## Play 20,000 random histories of records and of claims, and all faults
	go test -count=1 -timeout=120m -run='^Test(Histories|DeciderOneByOne)$$' ./pkg/dedupe -rapid.checks=$(HISTORIES)
	go test -count=1 -timeout=120m -run='^Test(Histories|Sequences)(InFile)?$$' ./pkg/itembank/sqlitestore -rapid.checks=$(HISTORIES)
	go test -count=1 -timeout=240m -run='^Test(Histories|Sequences)$$' ./pkg/itembank/dynamostore -rapid.checks=$(HISTORIES)
	ITEMBANKFAULT_ALL=1 go test -count=1 -timeout=240m -run='^Test(Faults(InFile|OnDynamoDBLocal|AtTheWire(OfDynamoDBLocal)?)?|FaultMutants|Kills)$$' ./pkg/itembank/sqlitestore ./pkg/itembank/dynamostore
	go test -count=1 -timeout=120m -run='^Test(Histories|OneByOne)$$/^(memory|sqlite-memory|sqlite-file)$$' ./internal/dedupefault -rapid.checks=$(HISTORIES)
	DEDUPEFAULT_ALL=1 go test -count=1 -timeout=240m -run='^Test(Histories|OneByOne)$$/^dynoxide$$' ./internal/dedupefault -rapid.checks=$$(($(HISTORIES) / 10))
	DEDUPEFAULT_ALL=1 go test -count=1 -timeout=240m -run='^Test(Faults|FaultsAtTheWire|Mutants)$$' ./internal/dedupefault

.PHONY: lint
lint: ## Check format, vet and lint
	@scripts/install-tools golangci-lint
	@unformatted=$$(gofmt -l $(GO_FILES)) && test -z "$$unformatted" || \
	  { echo "not gofmt-ed: $$unformatted" >&2; exit 1; }
	go vet ./...
	.tools/bin/golangci-lint run

.PHONY: tools
tools: ## Install the pinned tools into .tools/
	@scripts/install-tools

.PHONY: build
build: ## Build bin/oncebox
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/oncebox ./cmd/oncebox

.PHONY: zip
zip: dist/claim.zip dist/dedupe.zip ## Build dist/claim.zip and dist/dedupe.zip for Lambda; ARCH=arm64 (default) or amd64

.PHONY: dist/claim.zip dist/dedupe.zip
dist/claim.zip dist/dedupe.zip: dist/%.zip:
	scripts/build-function ./functions/$* $(ARCH) dist/$*/bootstrap
	go run ./tools/zip $@ dist/$*/bootstrap

ROUNDS  ?= 51
SUBJECT ?= .

.PHONY: bench
bench: ## Measure against floors in the same run; SUBJECT=Start, or all
	@scripts/install-tools dynoxide dynamodb-local aws-lambda-rie
	ONCEBOX_REQUIRE=all go test -run='^$$' -bench='$(SUBJECT)' -benchtime=$(ROUNDS)x -timeout=60m ./bench

.PHONY: chart
chart: ## Draw docs/claims-chart.svg: what claims cost while banks are handed out
	go run ./bench/chart

.PHONY: picture
picture: ## Draw docs/picture/jobs.svg from jobs.d2
	cd tools/d2 && go tool d2 --omit-version ../../docs/picture/jobs.d2 ../../docs/picture/jobs.svg
	chmod 644 docs/picture/jobs.svg

.PHONY: recording
recording: build ## Record the demo: docs/picture/demo.cast, which asciinema plays, and demo.svg
	go run ./tools/recording docs/picture/demo bin/oncebox demo

.PHONY: invoke
invoke: ## Give EVENT=events/claim/claim-body.json, or another, to its function in the Lambda emulator
	@scripts/install-tools dynoxide aws-lambda-rie
	@scripts/invoke '$(EVENT)'

.PHONY: sam-invoke
sam-invoke: ## The same in a container, with the stack's settings: by SAM local
	@scripts/install-tools dynoxide python
	@scripts/sam invoke '$(EVENT)'

.PHONY: sam-api
sam-api: ## Serve the stack's API on 127.0.0.1:3000 by SAM local; PORT=3000
	@scripts/install-tools dynoxide python
	@scripts/sam api

.PHONY: clean
clean: ## Remove what was built; the tools stay
	rm -rf bin dist
