//! What the MCP library asks of a session, request by request.

// Logging and resource subscriptions belong to the older protocol generations, which are served too.
#![allow(deprecated)]

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
        CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};

#[cfg(feature = "conformance")]
use super::conformance;
use super::{
    announce,
    caller::Caller,
    own::Own,
    session::{Session, page},
};

/// Methods of the generations with sessions only.
const OLDER_METHODS: [&str; 4] = ["initialize", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"];
/// Methods of every generation.
const METHODS: [&str; 8] = [
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
];
/// For how long a client may take a list for granted that changes with a release only, in milliseconds.
const LIST_TTL_MS: u64 = 60_000;
/// The same for the list of tools, which changes with the chain: a client that kept it would not see a revocation.
const TOOLS_TTL_MS: u64 = 0;

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let corporation = self.front.operator.corporation_id();
        ServerConfig::new(Self::capabilities())
            .with_server_info(Implementation::new("svc", env!("CARGO_PKG_VERSION")).with_title("svc operator tool server"))
            .with_instructions(format!(
                "Operates corporation {corporation} in a public trust registry with one operator key. Ledger tools write to the \
                 chain: each waits for its block and for the indexer, so a read after it sees it; one that names no cost costs \
                 the transaction fee only. Read svc://own/authorizations before the first write, and try dry_run: true before \
                 what cannot be undone. After BCAST_TIMEOUT ask svc.cosmos.tx.getTx; do not repeat the write."
            ))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        #[cfg(feature = "conformance")]
        if let Some(tool) = conformance::tools().iter().find(|tool| tool.name == name) {
            return Some(tool.clone());
        }
        self.front.catalog.get(name).map(|entry| self.front.catalog.listing(entry))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        #[cfg(feature = "conformance")]
        conformance::announce(context.peer.clone());
        self.front.listener(context.peer, Arc::clone(&self.memory));
    }

    async fn set_level(&self, request: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        #[cfg(feature = "conformance")]
        conformance::set_level(request.level);
        self.memory.set_level(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.traced("tools/list", "", &context, async {
            let (tools, next) = page(&self.tools(), request)?;
            let mut result =
                ListToolsResult::with_all_items(tools).with_cache_scope(CacheScope::Private).with_ttl_ms(TOOLS_TTL_MS);
            result.next_cursor = next;
            Ok(result)
        })
        .await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let work = async {
            #[cfg(feature = "conformance")]
            if let Some(outcome) = conformance::call(&request, &context).await {
                return outcome;
            }
            let mut caller = Caller::new(&context, &self.memory);
            caller.responses = request.input_responses;
            caller.request_state = request.request_state;
            let arguments = Value::Object(request.arguments.unwrap_or_default());
            Ok(self.call(&name, arguments, &caller).await)
        };
        self.traced("tools/call", &name, &context, work).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (prompts, next) = page(&self.prompts(), request)?;
        let mut result =
            ListPromptsResult::with_all_items(prompts).with_cache_scope(CacheScope::Public).with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.name.clone();
        let work = async {
            #[cfg(feature = "conformance")]
            if let Some(outcome) = conformance::get_prompt(&request, &context).await {
                return outcome;
            }
            self.prompt(&request).await
        };
        self.traced("prompts/get", &name, &context, work).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        #[cfg(feature = "conformance")]
        if let Some(result) = conformance::complete(&request) {
            return Ok(result);
        }
        let unknown = |what: &str| {
            let hint = "a prompt's name, or a tool's full name to complete its arguments";
            ErrorData::invalid_params(format!("nothing completes {what:?}: {hint}"), None)
        };
        let Some(name) = request.r#ref.as_prompt_name() else {
            return Err(unknown("a resource"));
        };
        let (argument, typed) = (&request.argument.name, &request.argument.value);
        self.traced("completion/complete", name, &context, async {
            if let Some(plan) = self.front.prompts.get(name) {
                return Ok(CompleteResult::new(self.front.complete(plan.completes(argument), typed).await));
            }
            let entry = self.front.catalog.get(name).ok_or_else(|| unknown(name))?;
            Ok(CompleteResult::new(self.front.complete_tool(entry, argument, typed).await))
        })
        .await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (resources, next) = page(&self.resources(), request)?;
        let mut result = ListResourcesResult::with_all_items(resources)
            .with_cache_scope(CacheScope::Public)
            .with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        #[cfg(feature = "conformance")]
        let templates = conformance::templates();
        #[cfg(not(feature = "conformance"))]
        let templates = Vec::new();
        Ok(ListResourceTemplatesResult::with_all_items(templates).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let work = async {
            #[cfg(feature = "conformance")]
            if let Some(result) = conformance::read(&uri) {
                return Ok(result.into());
            }
            let own = Own::find(&uri).ok_or_else(|| unknown_resource(&uri))?;
            let text = self.front.own(own).await.to_string();
            let contents = ResourceContents::text(text, uri.clone()).with_mime_type("application/json");
            // It may change at any moment; a subscription tells when.
            Ok(ReadResourceResult::new(vec![contents]).with_cache_scope(CacheScope::Private).with_ttl_ms(0).into())
        };
        self.traced("resources/read", &uri, &context, work).await
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        #[cfg(feature = "conformance")]
        if conformance::is_fixture_uri(&request.uri) {
            return Ok(());
        }
        Own::find(&request.uri).ok_or_else(|| unknown_resource(&request.uri))?;
        self.memory.uris(|uris| uris.insert(request.uri));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.memory.uris(|uris| uris.remove(&request.uri));
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&Self::capabilities()))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        #[cfg(feature = "conformance")]
        let _fixtures = conformance::follow(context.sink().clone());
        announce::listen(&self.front, &context).await;
        Ok(())
    }

    /// What the library could not read as one of its own requests.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let is_older = context.protocol_version().is_none_or(|version| version < ProtocolVersion::V_2026_07_28);
        let method = request.method.as_str();
        if METHODS.contains(&method) || (is_older && OLDER_METHODS.contains(&method)) {
            let reason = format!("the params of {} are not what the protocol says", request.method);
            return Err(ErrorData::invalid_params(reason, None));
        }
        // A method may be as long as a body; nobody needs to hear all of it again.
        let name = &request.method[..request.method.floor_char_boundary(100)];
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {name:?}"), None))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }
}

fn unknown_resource(uri: &str) -> ErrorData {
    let uri = &uri[..uri.floor_char_boundary(200)];
    let known: Vec<&str> = Own::ALL.into_iter().map(Own::uri).collect();
    ErrorData::resource_not_found(format!("there is no resource {uri:?}"), Some(json!({"uri": uri, "known": known})))
}
