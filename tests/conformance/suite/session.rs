//! A session of the tool server that answers for the fixtures itself, and passes everything else on.

use std::borrow::Cow;

use axum::{Router, middleware};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest, CustomResult,
        GetPromptRequestParams, GetPromptResponse, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ServerConfig, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use svc::mcp::{McpExtension, McpSession};

use super::{list_changes, prompts, protocol, resources, stream_cut, tools};

/// The fixtures of the suite, as an extension of the tool server.
#[derive(Debug, Clone, Copy)]
pub struct ConformanceFixtures;

impl McpExtension for ConformanceFixtures {
    type Session = FixtureSession;

    fn extend_session(&self, session: McpSession) -> FixtureSession {
        FixtureSession { inner: session }
    }

    fn extend_endpoint(&self, endpoint: Router) -> Router {
        endpoint.layer(middleware::from_fn(stream_cut::with_stream_cut))
    }
}

/// A session with the fixtures.
pub struct FixtureSession {
    inner: McpSession,
}

/// Puts the fixtures before the first page of a list: the suite reads no other page.
fn prepend<T>(page: &mut Vec<T>, is_first_page: bool, fixtures: impl IntoIterator<Item = T>) {
    if is_first_page {
        page.splice(0..0, fixtures);
    }
}

fn is_first_page(request: Option<&PaginatedRequestParams>) -> bool {
    request.is_none_or(|request| request.cursor.is_none())
}

impl ServerHandler for FixtureSession {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.inner.get_info();
        super::declare_capabilities(&mut info.capabilities);
        info
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let fixture = tools::tools().iter().find(|tool| tool.name == name).cloned();
        fixture.or_else(|| self.inner.get_tool(name))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        list_changes::notify_session(context.peer.clone());
        self.inner.on_initialized(context).await;
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        protocol::set_level(request.level);
        self.inner.set_level(request, context).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let is_first = is_first_page(request.as_ref());
        let mut page = self.inner.list_tools(request, context).await?;
        prepend(&mut page.tools, is_first, tools::tools().iter().cloned());
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match tools::call(&request, &context).await {
            Some(outcome) => outcome,
            None => self.inner.call_tool(request, context).await,
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let is_first = is_first_page(request.as_ref());
        let mut page = self.inner.list_prompts(request, context).await?;
        prepend(&mut page.prompts, is_first, prompts::prompts());
        Ok(page)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match prompts::get_prompt(&request, &context).await {
            Some(outcome) => outcome,
            None => self.inner.get_prompt(request, context).await,
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        match super::complete(&request) {
            Some(result) => Ok(result),
            None => self.inner.complete(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let is_first = is_first_page(request.as_ref());
        let mut page = self.inner.list_resources(request, context).await?;
        prepend(&mut page.resources, is_first, resources::resources());
        Ok(page)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let is_first = is_first_page(request.as_ref());
        let mut page = self.inner.list_resource_templates(request, context).await?;
        prepend(&mut page.resource_templates, is_first, resources::templates());
        Ok(page)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match resources::read(&request.uri) {
            Some(result) => Ok(result.into()),
            None => self.inner.read_resource(request, context).await,
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if resources::is_fixture_uri(&request.uri) {
            return Ok(());
        }
        self.inner.subscribe(request, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.inner.unsubscribe(request, context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let _fixtures = list_changes::notify_subscription(context.sink().clone());
        self.inner.listen(context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.inner.on_custom_request(request, context).await
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.inner.supported_protocol_versions()
    }
}
