//! Names of spans and of their attributes. The name of a metric stands in the function that records it.

/// Instrumentation scope of every span and metric.
pub const SCOPE: &str = "svc";

/// Span names.
pub mod span {
    /// Server span of one MCP request; exported as `<method> <target>`.
    pub const SERVER: &str = "mcp.server";
    /// Handling of one actor message; exported as `<actor> <message>`.
    pub const MESSAGE: &str = "actor.message";
    /// Simulation of a transaction.
    pub const SIMULATE: &str = "simulate";
    /// Signature of a transaction.
    pub const SIGN: &str = "sign";
    /// Hand-over of a transaction to the node.
    pub const BROADCAST: &str = "broadcast";
    /// Indexing of one block.
    pub const INDEX_BLOCK: &str = "index_block";
    /// Evaluation of the trust in one DID.
    pub const EVALUATE_DID: &str = "judge_did";
    /// Wait for inclusion in a block.
    pub const AWAIT_INCLUSION: &str = "await_inclusion";
    /// Decision of a transaction after its call has ended, or by another process.
    pub const RECONCILE: &str = "reconcile";
    /// Wait until the indexer has reached the block.
    pub const AWAIT_INDEX: &str = "await_index";
    /// One request to a server this one depends on.
    pub const UPSTREAM: &str = "upstream";
    /// Transaction that has the agent's document resolved again.
    pub const TRIGGER_RESOLUTION: &str = "trigger_resolution";
    /// Transaction that anchors the digest of a credential.
    pub const ANCHOR_CREDENTIAL: &str = "anchor_credential";
    /// One request to the agent's admin API; exported as `<method> <route>`.
    pub const ADMIN: &str = "admin_request";
    /// A participant that is read for its flows.
    pub const READ_PARTICIPANT: &str = "read_participant";
    /// A step of this agent in a flow.
    pub const FLOW_STEP: &str = "flow_step";
    /// Transaction that validates a participant in a flow.
    pub const VALIDATE_PARTICIPANT: &str = "validate_participant";
    /// A message of a peer: its checks, the decision about its sender, and its storage.
    pub const PEER_RECEIVE: &str = "peer_receive";
    /// A message to a peer.
    pub const PEER_SEND: &str = "peer_send";
    /// A request of this agent for access to an endpoint of a peer.
    pub const REQUEST_ACCESS: &str = "request_access";
    /// A run of `svc peer`; exported as `peer <command>`.
    pub const PEER_COMMAND: &str = "peer_command";
    /// A call of an endpoint of a peer, with the request for access before it.
    pub const CALL_PEER: &str = "call_peer";
    /// Fetch and verification of one DID Document.
    pub const RESOLVE_DID: &str = "resolve_did";
}

/// Attribute keys of spans.
pub mod attribute {
    /// Id of a flow.
    pub const FLOW: &str = "svc.flow.id";
    /// Route of the admin API, with its parameters in braces.
    pub const HTTP_ROUTE: &str = "http.route";
    /// Id of a participant.
    pub const PARTICIPANT: &str = "svc.participant.id";
    /// Step of a flow.
    pub const FLOW_STEP: &str = "svc.flow.step";
    /// The beginning of a hash of the peer's DID.
    pub const PEER: &str = "svc.peer.hash";
    /// Protocol of a peer's message.
    pub const PEER_PROTOCOL: &str = "svc.peer.protocol";
    /// Outcome of a peer's message.
    pub const PEER_OUTCOME: &str = "svc.peer.outcome";
    /// Transaction hash, upper-case hex.
    pub const TX_HASH: &str = "chain.tx.hash";
    /// Block height.
    pub const HEIGHT: &str = "chain.block.height";
    /// Kind of upstream: rpc, indexer, graph, vs-agent.
    pub const UPSTREAM_KIND: &str = "svc.upstream.kind";
    /// Seconds a message waited in the mailbox.
    pub const MAILBOX_WAIT: &str = "svc.actor.mailbox_wait_seconds";
    /// Kind of actor.
    pub const ACTOR: &str = "svc.actor.kind";
    /// Kind of message.
    pub const MESSAGE: &str = "svc.actor.message";
    /// MCP method.
    pub const MCP_METHOD: &str = "mcp.method.name";
    /// Tool name.
    pub const TOOL: &str = "gen_ai.tool.name";
    /// JSON-RPC request id.
    pub const REQUEST_ID: &str = "jsonrpc.request.id";
    /// HTTP method of an upstream request.
    pub const HTTP_METHOD: &str = "http.request.method";
    /// HTTP status of its answer.
    pub const HTTP_STATUS: &str = "http.response.status_code";
    /// Registry events of a block.
    pub const EVENTS: &str = "indexer.events";
    /// Entities a block changed.
    pub const CHANGES: &str = "indexer.changes";
    /// A DID.
    pub const DID: &str = "svc.did";
    /// Number of a version of the DID Document.
    pub const DOCUMENT_VERSION: &str = "svc.did.version";
    /// Id of a credential.
    pub const CREDENTIAL: &str = "svc.credential.id";
    /// Id of a credential schema of the registry.
    pub const SCHEMA_ID: &str = "svc.schema.id";
    /// Whether the evaluation fetches everything again.
    pub const IS_FRESH: &str = "svc.trust.fresh";
    /// Outcome of the evaluation of a DID: trusted, not_trusted, open, failed.
    pub const TRUST_OUTCOME: &str = "svc.trust.outcome";
    /// DID method: web, webvh, other.
    pub const DID_METHOD: &str = "svc.did.method";
    /// Outcome of a resolution: ok, or the code of the failure.
    pub const DID_OUTCOME: &str = "svc.did.outcome";
    /// Error code of a failed call.
    pub const ERROR_TYPE: &str = "error.type";
}
