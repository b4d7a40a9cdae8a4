# Everything here needs Go alone, but for test-clients, which installs what other languages' clients need.
GO ?= go

.PHONY: build run test test-clients check fuzz bench

build: ## bin/quire
	$(GO) build -o bin/quire ./cmd/quire

run: ## build, and start a node on ./data
	@$(GO) build -o bin/quire ./cmd/quire
	@./bin/quire serve

test: check ## all tests that need Go alone, under the race detector
	$(GO) test -race -timeout 30m ./...

check: ## formatting, vet, staticcheck, floors
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt -w would change these"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test -run TestFloors .

test-clients: build ## clients of other languages, and Apache Kafka's own tools, against this build
	./clients/run

fuzz: ## each fuzzer for a minute
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $${FUZZTIME:-1m} -fuzzminimizetime 2s $$p || exit 1; done; done

bench: ## the benchmarks beside the code
	$(GO) test -run '^$$' -bench . -benchmem ./...
