//! A question to a peer for its protocols, whose answer a caller waits for.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use svc_agent_core::error::Refusal;
use svc_agent_store::{QueueError, store_failed};
use svc_didcomm::{
    Message,
    protocol::discover_features::{Disclosure, query_message},
};
use svc_kit::wall_clock;
use tokio::{sync::oneshot, time::timeout};
use uuid::Uuid;

use super::service::PeerService;

/// The protocols that a question names.
const ASKED_PROTOCOLS: &str = "https://didcomm.org/*";

struct OpenQuestion {
    connection_id: String,
    reply: oneshot::Sender<Vec<Disclosure>>,
}

/// The questions whose callers wait, by the id of their message. A caller has one at a time, so that there are as many as callers.
#[derive(Default)]
pub(super) struct OpenQuestions(Mutex<HashMap<String, OpenQuestion>>);

/// The entry of a question, which ends with its caller.
struct Asked<'a> {
    questions: &'a OpenQuestions,
    id: String,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.questions.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl OpenQuestions {
    fn ask(&self, connection_id: &str) -> (Asked<'_>, oneshot::Receiver<Vec<Disclosure>>) {
        let (reply, answered) = oneshot::channel();
        let id = Uuid::new_v4().to_string();
        let question = OpenQuestion { connection_id: connection_id.to_owned(), reply };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), question);
        (Asked { questions: self, id }, answered)
    }

    /// Whether a caller waits for an answer in a thread. Its id is known to this agent and the peer alone.
    pub fn is_open(&self, thread: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(thread)
    }

    /// Takes an answer that has come in a thread. One in the thread of another connection's question is none.
    pub fn answer(&self, thread: &str, connection_id: &str, disclosures: &[Disclosure]) {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if questions.get(thread).is_some_and(|question| question.connection_id == connection_id)
            && let Some(question) = questions.remove(thread)
        {
            // Its caller may have stopped waiting.
            let _ = question.reply.send(disclosures.to_vec());
        }
    }
}

impl PeerService {
    /// Asks the peer of a connection for its protocols, and waits. Nothing where it cannot be asked or does not answer in time.
    pub async fn ask_protocols(
        &self,
        connection_id: &str,
        patience: Duration,
    ) -> Result<Option<Vec<Disclosure>>, Refusal> {
        let connection = self.connection(connection_id).await?;
        let (asked, answered) = self.0.questions.ask(connection_id);
        let now = wall_clock::now().seconds;
        // A later answer is for no caller, so that the outbox keeps the question no longer.
        let end = now.saturating_add(i64::try_from(patience.as_secs()).unwrap_or(i64::MAX));
        let message = Message { expires_time: Some(end), ..query_message(&asked.id, ASKED_PROTOCOLS) };
        let queued = self.0.parts.store.queue_message(connection_id, &message, now, &self.0.limits).await;
        self.0.parts.guard.note_result(&queued);
        match queued {
            Ok(()) => {}
            // The message that follows meets the same refusal.
            Err(QueueError::Refused(_)) => return Ok(None),
            Err(QueueError::Store(error)) => return Err(store_failed(&error)),
        }
        self.message_queued(connection_id, &connection.connection.public_did).await;
        let answered = timeout(patience, answered).await.ok().and_then(Result::ok);
        tracing::debug!(connection_id, is_answered = answered.is_some(), "a peer was asked for its protocols");
        Ok(answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_belongs_to_the_question_of_its_thread_and_connection() {
        let questions = OpenQuestions::default();
        let (asked, mut answered) = questions.ask("c");
        let disclosed = [Disclosure { feature_type: "protocol".to_owned(), id: "p".to_owned() }];
        for (thread, connection_id) in [("other", "c"), (asked.id.as_str(), "d")] {
            questions.answer(thread, connection_id, &disclosed);
            assert!(answered.try_recv().is_err(), "{thread} of {connection_id}");
        }
        questions.answer(&asked.id, "c", &disclosed);
        assert_eq!(answered.try_recv().as_deref(), Ok(disclosed.as_slice()));
        questions.answer(&asked.id, "c", &disclosed);
        assert!(!questions.is_open(&asked.id), "one that is answered is open no longer");
        drop(asked);
        let (asked, _answered) = questions.ask("c");
        drop(asked);
        assert!(questions.0.lock().expect("a lock").is_empty(), "a question ends with its caller");
    }
}
