# Builds, tests and shows Terrace. Each target says what it runs.
CARGO ?= cargo
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: build demo test lint soak bench install

build: ## the development binary, target/debug/terrace
	$(CARGO) build --bins

test: ## every test, the long ones at a tenth of their counts
	$(CARGO) build --bins
	$(CARGO) test --workspace

lint: ## formatting, clippy and docs, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
