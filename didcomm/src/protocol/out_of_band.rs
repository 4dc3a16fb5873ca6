//! out-of-band/2.0: an invitation to talk to a DID, sent over a connection. Invitations of peers are not taken.

use serde_json::{Map, Value, json};

use crate::message::Message;

/// The invitation.
pub const INVITATION: &str = "https://didcomm.org/out-of-band/2.0/invitation";

/// An invitation to talk to a DID.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invitation {
    /// The DID to talk to. It stands in the body: `from` of the message is the DID that encrypts it.
    pub from: String,
    /// Why, for programs.
    pub goal_code: Option<String>,
    /// Why, for people.
    pub goal: Option<String>,
}

impl Invitation {
    /// Makes the message.
    pub fn to_message(&self, id: &str) -> Message {
        let mut body =
            Map::from_iter([("from".to_owned(), json!(self.from)), ("accept".to_owned(), json!(["didcomm/v2"]))]);
        for (name, value) in [("goal_code", &self.goal_code), ("goal", &self.goal)] {
            if let Some(value) = value {
                body.insert(name.to_owned(), json!(value));
            }
        }
        Message::new(id, INVITATION, Value::Object(body))
    }
}
