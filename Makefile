# Builds, tests and shows Terrace. Each target says what it runs.
CARGO ?= cargo
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: build demo test lint soak bench install servers

build: ## the development binary, target/debug/terrace
	$(CARGO) build --bins

servers: ## real servers that tests talk to
	@command -v redis-server > /dev/null || { \
	  root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$root apt-get update -qq && $$root apt-get install -qq -y redis-server > /dev/null; }

test: servers ## every test, the long ones at a tenth of their counts; the demo
	$(CARGO) build --bins --examples
	$(CARGO) test --workspace
	demo/run > /dev/null

lint: ## formatting, clippy and docs, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

demo: ## what Terrace does, on made files or on those in DATA
	$(CARGO) build --bins --examples
	@demo/run $(DATA)

install: ## the binary, into cargo's bin directory
	$(CARGO) install --path crates/cli

soak: ## the long counts: kills, faults, power losses, operations
	TERRACE_KILLS=1000 $(CARGO) test -p terrace --test kill -- --nocapture
	TERRACE_POWER=100 $(CARGO) test -p terrace --test power -- --nocapture
	TERRACE_CALLS=100 $(CARGO) test -p terrace --test failing -- --nocapture
	TERRACE_CONVERSIONS=100000 $(CARGO) test -p terrace-views --test conversion -- --nocapture
	TERRACE_HISTORY_MS=60000 $(CARGO) test -p terrace --test processes -- --nocapture

bench: ## each figure beside the paper's or a peer's; docs/benchmarks.{json,md} and plots
	$(CARGO) build --bins
	target/debug/terrace-bench --write docs
