//! Reads: calls of the indexer, the graph, the node and the agents.

use serde_json::Value;
use svc_operator::HeightSource;
use svc_wire::error_envelope::ErrorEnvelope;

use super::{
    answer::{ToolAnswer, summary_line},
    confirmation::{ConfirmationOutcome, ConfirmationSubject},
    row_view::RowView,
    tool_call::CallOutcome,
};
use crate::mcp::{
    catalog::{
        ArgumentViolation, CatalogEntry, CosmosQuery, CosmosTool, DEFAULT_ROWS, GraphQuery, GraphTool, IdxTool,
        QueryDefaults, VsaTool, invalid_arguments,
    },
    server::ToolServer,
    session::ToolCaller,
};

impl ToolServer {
    pub(super) async fn call_indexer(
        &self,
        name: &str,
        tool: IdxTool,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<ToolAnswer, ErrorEnvelope> {
        let note = self.await_height(HeightSource::Indexer, arguments, caller).await?;
        let request = tool.build_request(arguments);
        let (operation, height) = (tool.operation(), request.at_block_height);
        let document = match &request.body {
            Some(body) => self.operator.indexer_post(operation, &request.path, body, height).await?,
            None => self.operator.indexer_get(operation, &request.path, &request.query, height).await?,
        };
        let doubt = self.operator.doubt_about_indexer().map_or_else(String::new, |reason| {
            format!(" (it is not known whether the indexer follows the chain of the node: {reason})")
        });
        let summary = summary_line(name, &document.value) + &note + &doubt;
        let Some(shape) = tool.list_shape().filter(|_| !IdxTool::is_raw(arguments)) else {
            return Ok(ToolAnswer::verbatim(summary, document));
        };
        let limit = arguments["limit"].as_u64().unwrap_or(DEFAULT_ROWS);
        let sort = arguments["sort"].as_str();
        let omits_frameworks = tool.omits_frameworks(arguments);
        let view = RowView { shape: &shape, fields: IdxTool::chosen_fields(arguments), limit, sort, omits_frameworks };
        Ok(ToolAnswer::new(summary, view.apply(document.value)))
    }

    pub(super) async fn call_graph(
        &self,
        name: &str,
        tool: &GraphTool,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<ToolAnswer, ErrorEnvelope> {
        let note = self.await_height(HeightSource::Graph, arguments, caller).await?;
        let content = match &tool.query {
            GraphQuery::Traversal(query) => {
                let (input, page) = GraphTool::traversal_input(arguments);
                self.operator.traverse(query, &input, &page).await?
            }
            GraphQuery::SurfaceSearch(surface) => {
                self.operator.search(&GraphTool::search_body(surface, arguments)).await?
            }
        };
        Ok(ToolAnswer::new(summary_line(name, &content) + &note, content))
    }

    pub(super) async fn call_agent(
        &self,
        entry: &CatalogEntry,
        tool: &VsaTool,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<CallOutcome, ErrorEnvelope> {
        let (did, request) = tool.build_request(arguments);
        let subject = ConfirmationSubject::for_agent_request(&entry.tool.name, &did, &request);
        let confirmed_by = match self.confirmations.require(entry.call_policy, &subject, caller).await {
            Ok(ConfirmationOutcome::Proceed) => None,
            Ok(ConfirmationOutcome::Confirmed { by }) => Some(by),
            // A question is no call yet.
            Ok(ConfirmationOutcome::InputRequired(question)) => return Ok(CallOutcome::InputRequired(question)),
            Err(error) => return Err(self.record_refusal(entry, arguments, caller, error)),
        };
        let called = self.operator.agent_call(&did, request).await;
        self.record_call(entry, arguments, caller, confirmed_by, called.as_ref().err());
        let content = called?;
        Ok(ToolAnswer::new(summary_line(&entry.tool.name, &content), content).of_others().into())
    }

    pub(super) async fn call_cosmos(
        &self,
        name: &str,
        tool: &CosmosTool,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<ToolAnswer, ErrorEnvelope> {
        let (snapshot, operator) = (self.operator.snapshot(), self.operator.identity().address.to_string());
        let defaults = QueryDefaults {
            operator: &operator,
            policy_address: snapshot.policy_address(),
            denom: &self.operator.chain().params.denom,
        };
        let query = tool
            .build_query(arguments, &defaults)
            .map_err(|reason| invalid_arguments(name, &[ArgumentViolation { pointer: String::new(), reason }]))?;
        let note = self.await_height(HeightSource::Node, arguments, caller).await?;
        let content = match query {
            CosmosQuery::TxByHash(hash) => return self.describe_tx(&hash, arguments).await,
            CosmosQuery::RpcMethod { method, params } => self.operator.node_rpc(method, params).await?,
            CosmosQuery::GrpcQuery { path, request, height } => {
                self.operator.chain_query(path, &request, height).await?
            }
        };
        Ok(ToolAnswer::new(summary_line(name, &content) + &note, content))
    }

    /// Waits for the block that the arguments name, and fails when it does not come in time. Without such an argument, waits for
    /// the block of the session's last write; when that does not come in time, the read continues and the returned note says so.
    async fn await_height(
        &self,
        reader: HeightSource,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<String, ErrorEnvelope> {
        if let Some(height) = arguments["min_height"].as_u64() {
            let wait_limit = self.operator.indexer_timeout();
            return self.operator.await_height(reader, height, wait_limit).await.map(|()| String::new());
        }
        let (session, written) = (caller.session(), caller.session().last_write_height());
        if written == 0 || arguments.get("at_block_height").is_some() {
            return Ok(String::new());
        }
        let wait_limit = session.wait_limit(reader, written, self.operator.indexer_timeout());
        match self.operator.await_height(reader, written, wait_limit).await {
            Ok(()) => Ok(String::new()),
            Err(behind) => {
                session.record_miss(reader, written);
                Ok(format!(" (does not show this session's last write, block {written}: {})", behind.message))
            }
        }
    }
}
