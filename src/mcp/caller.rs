//! Who called: what its client can do, what it wants to hear, what it wrote last.

// Log messages are deprecated in the newest protocol generation and spoken in all of them.
#![allow(deprecated)]

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{
        ElicitRequestParams, ElicitResult, InputResponses, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProtocolVersion,
    },
    service::RequestContext,
};
use serde_json::Value;
use tokio::time::timeout;

/// What a session remembers between its requests.
#[derive(Debug, Default)]
pub struct Memory {
    uris: Mutex<HashSet<String>>,
    level: Mutex<Option<LoggingLevel>>,
    written: AtomicU64,
}

impl Memory {
    /// Resources the client has subscribed to.
    pub fn uris<R>(&self, change: impl FnOnce(&mut HashSet<String>) -> R) -> R {
        change(&mut self.uris.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the least severity the client wants to hear.
    pub fn set_level(&self, level: LoggingLevel) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    fn level(&self) -> Option<LoggingLevel> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a client can be asked something in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// By a request of the server, while the call waits.
    Elicitation,
    /// By an answer that asks, after which the client calls again.
    InputRequired,
    /// Not at all.
    Impossible,
}

/// How far a call is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Steps done.
    pub done: u8,
    /// Steps there are.
    pub of: u8,
    /// What goes on.
    pub message: &'static str,
}

/// One call's caller.
pub struct Caller<'a> {
    context: &'a RequestContext<RoleServer>,
    memory: &'a Memory,
    /// Answers to questions of an earlier round.
    pub responses: Option<InputResponses>,
    /// What the server gave along with those questions.
    pub request_state: Option<String>,
}

/// How long a client may take to accept a notification.
pub const NOTIFY: Duration = Duration::from_secs(5);
/// Longest name of a client program that is kept.
const MAX_CLIENT_NAME: usize = 100;
/// How long a person may think.
const ANSWER: Duration = Duration::from_secs(5 * 60);

impl<'a> Caller<'a> {
    /// The caller of a request.
    pub fn new(context: &'a RequestContext<RoleServer>, memory: &'a Memory) -> Self {
        Self { context, memory, responses: None, request_state: None }
    }

    /// How its client can be asked.
    pub fn asking(&self) -> Asking {
        let can_be_asked = self.context.client_capabilities().is_some_and(|client| client.elicitation.is_some());
        let is_modern = self.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (can_be_asked, is_modern) {
            (false, _) => Asking::Impossible,
            (true, true) => Asking::InputRequired,
            (true, false) => Asking::Elicitation,
        }
    }

    /// Asks the person and waits; `None` when no answer came.
    pub async fn elicit(&self, question: ElicitRequestParams) -> Option<ElicitResult> {
        tokio::select! {
            answer = self.context.peer.create_elicitation_with_timeout(question, Some(ANSWER)) => answer.ok(),
            () = self.cancelled() => None,
        }
    }

    /// Whether the client has cancelled the call or gone away.
    pub fn is_gone(&self) -> bool {
        self.context.ct.is_cancelled()
    }

    /// Ends when the client has cancelled the call or gone away.
    pub async fn cancelled(&self) {
        self.context.ct.cancelled().await;
    }

    /// Which session it is, or what stands for it where the protocol has none, and the name of the client program.
    pub fn who(&self) -> (String, String) {
        let header = |name: &str| {
            let parts = self.context.extensions.get::<::http::request::Parts>()?;
            parts.headers.get(name)?.to_str().ok().map(str::to_owned)
        };
        let client = self.context.client_info().map_or_else(String::new, |info| info.name);
        let client = client[..client.floor_char_boundary(MAX_CLIENT_NAME)].to_owned();
        let session = match header("mcp-session-id") {
            Some(session) => session,
            None if self.context.extensions.get::<::http::request::Parts>().is_some() => format!("stateless {client}"),
            None => "stdio".to_owned(),
        };
        (session, client)
    }

    /// Tells how far the call is, as progress and as a log message, to a client that wants to hear either.
    pub async fn progress(&self, progress: Progress, detail: Value) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let param = ProgressNotificationParam::new(token, f64::from(progress.done))
                .with_total(f64::from(progress.of))
                .with_message(progress.message);
            // A client that does not read must not hold up a write.
            let _ = timeout(NOTIFY, self.context.peer.notify_progress(param)).await;
        }
        let mut detail = detail;
        detail["step"] = progress.message.into();
        self.log(LoggingLevel::Info, detail).await;
    }

    /// A failure, as a log message.
    pub async fn warn(&self, data: Value) {
        self.log(LoggingLevel::Warning, data).await;
    }

    /// A log message, if the client wants to hear its severity.
    async fn log(&self, level: LoggingLevel, data: Value) {
        let least = self.context.meta.log_level().or_else(|| self.memory.level());
        if least.is_some_and(|least| severity(level) >= severity(least)) {
            let param = LoggingMessageNotificationParam::new(level, data).with_logger("svc");
            let _ = timeout(NOTIFY, self.context.peer.notify_logging_message(param)).await;
        }
    }

    /// The height of the session's last write; 0 when there is none.
    pub fn last_written(&self) -> u64 {
        self.memory.written.load(Ordering::Relaxed)
    }

    /// Notes a write.
    pub fn written(&self, height: u64) {
        self.memory.written.fetch_max(height, Ordering::Relaxed);
    }

    /// Forgets a write that a read has waited for in vain.
    pub fn forget_written(&self, height: u64) {
        let _ = self.memory.written.compare_exchange(height, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Syslog severities, the gravest highest.
fn severity(level: LoggingLevel) -> u8 {
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
