//! The caller of one request: the capabilities of its client, its questions and notifications, and its session.

// Log messages are deprecated in the newest protocol version, and all versions have them.
#![allow(deprecated)]

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleServer,
    model::{
        ElicitRequestParams, ElicitResult, InputResponses, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProtocolVersion,
    },
    service::RequestContext,
};
use serde_json::Value;
use svc_operator::DEFAULT_PRINCIPAL;
use tokio::time::timeout;

use super::state::SessionState;
use crate::{mcp::notifications::NOTIFY_TIMEOUT, principals::Principal};

/// The way in which a server can ask the client for input during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElicitationMode {
    /// The server sends a request while the call waits.
    ServerRequest,
    /// The server answers with the question, and the client calls again.
    InputRequired,
    /// The client cannot be asked.
    Unsupported,
}

/// The progress of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallProgress {
    /// Steps done.
    pub steps_done: u8,
    /// All steps.
    pub steps_total: u8,
    /// The current step as a text.
    pub message: &'static str,
}

/// The caller of a request.
pub struct ToolCaller<'a> {
    context: &'a RequestContext<RoleServer>,
    session: &'a SessionState,
    principal: Arc<Principal>,
    /// Answers to the questions of an earlier round.
    pub input_responses: Option<InputResponses>,
    /// The request state that the server gave along with those questions.
    pub request_state: Option<String>,
}

/// Longest name of a client program, in bytes; a longer one is truncated.
const MAX_CLIENT_NAME_BYTES: usize = 100;
/// Longest wait for the answer of a person.
const ELICITATION_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The principal of a request. Over standard input it is the one that may do everything.
pub fn principal_of(context: &RequestContext<RoleServer>) -> Arc<Principal> {
    let parts = context.extensions.get::<::http::request::Parts>();
    let of_request = parts.and_then(|parts| parts.extensions.get::<Arc<Principal>>()).map(Arc::clone);
    of_request.unwrap_or_else(|| match parts {
        None => Principal::default_one(),
        // The listener authenticates every request; one that it has not has no rights.
        Some(_) => Arc::new(Principal::without_rights()),
    })
}

impl<'a> ToolCaller<'a> {
    /// The caller of a request.
    pub fn new(context: &'a RequestContext<RoleServer>, session: &'a SessionState) -> Self {
        Self { context, session, principal: principal_of(context), input_responses: None, request_state: None }
    }

    /// The principal that calls.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The way in which the client can be asked for input.
    pub fn elicitation_mode(&self) -> ElicitationMode {
        let can_be_asked = self.context.client_capabilities().is_some_and(|client| client.elicitation.is_some());
        let is_modern = self.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (can_be_asked, is_modern) {
            (false, _) => ElicitationMode::Unsupported,
            (true, true) => ElicitationMode::InputRequired,
            (true, false) => ElicitationMode::ServerRequest,
        }
    }

    /// Asks the person and waits for the answer; `None` when no answer comes.
    pub async fn elicit(&self, question: ElicitRequestParams) -> Option<ElicitResult> {
        tokio::select! {
            answer = self.context.peer.create_elicitation_with_timeout(question, Some(ELICITATION_TIMEOUT)) => answer.ok(),
            () = self.cancelled() => None,
        }
    }

    /// Whether the client has cancelled the call or disconnected.
    pub fn is_cancelled(&self) -> bool {
        self.context.ct.is_cancelled()
    }

    /// Resolves when the client cancels the call or disconnects.
    pub async fn cancelled(&self) {
        self.context.ct.cancelled().await;
    }

    /// The session id and the name of the client program. A client of a protocol version without sessions has an id made of its
    /// name and its principal, unless that is the default one; a client on stdio has the id `stdio`.
    pub fn session_and_client(&self) -> (String, String) {
        let header = |name: &str| {
            let parts = self.context.extensions.get::<::http::request::Parts>()?;
            parts.headers.get(name)?.to_str().ok().map(str::to_owned)
        };
        let client = self.context.client_info().map_or_else(String::new, |info| info.name);
        let client = client[..client.floor_char_boundary(MAX_CLIENT_NAME_BYTES)].to_owned();
        let session = match header("mcp-session-id") {
            Some(session) => session,
            None if self.is_on_stdio() => "stdio".to_owned(),
            None if &*self.principal.id == DEFAULT_PRINCIPAL => format!("stateless {client}"),
            None => format!("stateless {client} of {}", self.principal.id),
        };
        (session, client)
    }

    /// Whether the client is on standard input.
    pub fn is_on_stdio(&self) -> bool {
        self.context.extensions.get::<::http::request::Parts>().is_none()
    }

    /// The person behind the client, for the audit.
    pub fn person(&self) -> String {
        format!("a person, through {}", self.session_and_client().1)
    }

    /// Reports the progress of the call as a progress notification and as a log message, as far as the client requested them.
    pub async fn report_progress(&self, progress: CallProgress, detail: Value) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let param = ProgressNotificationParam::new(token, f64::from(progress.steps_done))
                .with_total(f64::from(progress.steps_total))
                .with_message(progress.message);
            // A client that does not read must not delay a write.
            let _ = timeout(NOTIFY_TIMEOUT, self.context.peer.notify_progress(param)).await;
        }
        let mut detail = detail;
        detail["step"] = progress.message.into();
        self.log(LoggingLevel::Info, detail).await;
    }

    /// Reports a failure as a log message.
    pub async fn log_failure(&self, data: Value) {
        self.log(LoggingLevel::Warning, data).await;
    }

    /// Sends a log message, if the client requested its severity.
    async fn log(&self, level: LoggingLevel, data: Value) {
        let least = self.context.meta.log_level().or_else(|| self.session.min_log_level());
        if least.is_some_and(|least| severity_rank(level) >= severity_rank(least)) {
            let param = LoggingMessageNotificationParam::new(level, data).with_logger("svc");
            let _ = timeout(NOTIFY_TIMEOUT, self.context.peer.notify_logging_message(param)).await;
        }
    }

    /// The state of the session.
    pub fn session(&self) -> &SessionState {
        self.session
    }

    /// Records a write of the session.
    pub fn record_write(&self, height: u64) {
        self.session.record_write(height);
    }
}

/// The rank of a syslog severity; the most severe has the highest.
fn severity_rank(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
