//! The formats of credentials in issue-credential/2.0: names, and contents of the attachments.
//!
//! Agents of the first generation know the format of JSON-LD proofs alone, later ones that of Data Integrity.

use serde_json::{Value, json};
use svc_wire::strict_json::parse_strict_json;

use super::{
    attachment::{Attachment, AttachmentData},
    issue_credential::FormatAttachment,
    vt_flow::MAX_CLAIMS_BYTES,
};
use crate::limits::MAX_JSON_LEVELS;

/// Bytes of a credential as JSON: its claims, and 128 KiB for contexts, ids and proof. A presentation of one such credential has to stay
/// below the MiB that indexers fetch.
pub const MAX_CREDENTIAL_BYTES: usize = MAX_CLAIMS_BYTES + 128 * 1024;
/// Bytes of an attachment, whose credential may stand in a member beside the options of its proof.
const MAX_ATTACHED_BYTES: usize = MAX_CREDENTIAL_BYTES + 16 * 1024;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialFormat {
    /// VC 2.0 with a Data Integrity proof.
    DataIntegrity,
    /// VC 1.1 with a linked-data proof.
    LdProof,
}

impl CredentialFormat {
    const ALL: [Self; 2] = [Self::DataIntegrity, Self::LdProof];

    /// The name of an offer.
    pub fn offer_name(self) -> &'static str {
        match self {
            Self::DataIntegrity => "didcomm/w3c-di-vc-offer@v0.1",
            Self::LdProof => "aries/ld-proof-vc-detail@v1.0",
        }
    }

    /// The name of a request.
    pub fn request_name(self) -> &'static str {
        match self {
            Self::DataIntegrity => "didcomm/w3c-di-vc-request@v0.1",
            Self::LdProof => "aries/ld-proof-vc-detail@v1.0",
        }
    }

    /// The name of a credential.
    pub fn credential_name(self) -> &'static str {
        match self {
            Self::DataIntegrity => "didcomm/w3c-di-vc@v0.1",
            Self::LdProof => "aries/ld-proof-vc@v1.0",
        }
    }

    /// The format whose offers have a name.
    pub fn of_offer(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.offer_name() == name)
    }

    /// The format whose credentials have a name.
    pub fn of_credential(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.credential_name() == name)
    }

    /// The attachment of an offer. The credential has no proof.
    pub fn offer(self, id: &str, credential: &Value) -> FormatAttachment {
        let content = match self {
            Self::DataIntegrity => {
                json!({"data_model_versions_supported": ["2.0"], "binding_required": false, "credential": credential})
            }
            Self::LdProof => detail(credential),
        };
        attached(self.offer_name(), id, &content)
    }

    /// The attachment of a request for an offered credential. In the older format it is the offer itself.
    pub fn request(self, id: &str, offered: &Value) -> FormatAttachment {
        let content = match self {
            Self::DataIntegrity => json!({"data_model_version": "2.0"}),
            Self::LdProof => detail(offered),
        };
        attached(self.request_name(), id, &content)
    }

    /// The attachment of a credential.
    pub fn credential(self, id: &str, credential: &Value) -> FormatAttachment {
        match self {
            Self::DataIntegrity => attached(self.credential_name(), id, &json!({"credential": credential})),
            Self::LdProof => attached(self.credential_name(), id, credential),
        }
    }
}

/// The credential of the first offer in a known format, with the format.
pub fn offered_credential(attachments: &[FormatAttachment]) -> Option<(CredentialFormat, Value)> {
    find(attachments, CredentialFormat::of_offer)
}

/// The first credential in a known format, with the format.
pub fn issued_credential(attachments: &[FormatAttachment]) -> Option<(CredentialFormat, Value)> {
    find(attachments, CredentialFormat::of_credential)
}

fn detail(credential: &Value) -> Value {
    let options = json!({"proofType": "Ed25519Signature2020", "proofPurpose": "assertionMethod"});
    json!({"credential": credential, "options": options})
}

/// Agents of the first generation read base64 alone.
fn attached(name: &str, id: &str, content: &Value) -> FormatAttachment {
    let data = AttachmentData::Base64(content.to_string().into_bytes());
    FormatAttachment { format: name.to_owned(), attachment: Attachment { id: id.to_owned(), data } }
}

fn find(
    attachments: &[FormatAttachment],
    format_of: impl Fn(&str) -> Option<CredentialFormat>,
) -> Option<(CredentialFormat, Value)> {
    attachments.iter().find_map(|one| {
        let format = format_of(&one.format)?;
        let json = match &one.attachment.data {
            AttachmentData::Json(json) => json.clone(),
            AttachmentData::Base64(bytes) if bytes.len() <= MAX_ATTACHED_BYTES => {
                parse_strict_json(bytes, MAX_JSON_LEVELS).ok()?
            }
            AttachmentData::Base64(_) => return None,
        };
        let is_credential = json.is_object() && json.to_string().len() <= MAX_ATTACHED_BYTES;
        is_credential.then(|| (format, inner_credential(json)))
    })
}

/// The credential in an attachment, which stands there with or without a member around it.
fn inner_credential(attached: Value) -> Value {
    match attached {
        Value::Object(mut members) if members.get("credential").is_some_and(Value::is_object) => {
            members.remove("credential").unwrap_or_default()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        message::Message,
        protocol::{Content, issue_credential::IssueCredential},
    };

    fn fixture(text: &str) -> Vec<FormatAttachment> {
        let file: Value = serde_json::from_str(text).expect("JSON");
        let message = Message::parse(file["plaintext"].to_string().as_bytes()).expect("a message");
        match Content::read(&message).expect("a step") {
            Content::IssueCredential(
                IssueCredential::Offer { attachments, .. }
                | IssueCredential::Request(attachments)
                | IssueCredential::Issue(attachments),
            ) => attachments,
            other => panic!("{other:?}"),
        }
    }

    fn json_of(one: &FormatAttachment) -> Value {
        match &one.attachment.data {
            AttachmentData::Base64(bytes) => serde_json::from_slice(bytes).expect("JSON"),
            AttachmentData::Json(value) => value.clone(),
        }
    }

    #[test]
    fn the_older_format_is_that_of_the_recorded_messages() {
        let offered = fixture(include_str!("../../tests/fixtures/13-issue-credential-offer.json"));
        let requested = fixture(include_str!("../../tests/fixtures/14-issue-credential-request.json"));
        let issued = fixture(include_str!("../../tests/fixtures/15-issue-credential-issue.json"));
        let (format, credential) = offered_credential(&offered).expect("an offer");
        assert_eq!(format, CredentialFormat::LdProof);
        for (own, recorded) in [
            (format.offer("a", &credential), &offered[0]),
            (format.request("a", &credential), &requested[0]),
            (format.credential("a", &issued_credential(&issued).expect("one").1), &issued[0]),
        ] {
            assert_eq!((&own.format, json_of(&own)), (&recorded.format, json_of(recorded)));
        }
        assert!(offered_credential(&issued).is_none() && issued_credential(&offered).is_none());
    }

    #[test]
    fn the_newer_format_is_read_with_and_without_the_member_around_it() {
        let format = CredentialFormat::DataIntegrity;
        let credential = json!({"id": "did:web:a#1", "credentialSubject": {"id": "did:web:b"}});
        assert_eq!(offered_credential(&[format.offer("a", &credential)]), Some((format, credential.clone())));
        // With a photo and a biometric pattern, as the published schema of a badge allows them, and nearly the longest.
        for photo in [2 * 262_144, MAX_CREDENTIAL_BYTES - 64] {
            let badge = json!({"id": "x", "photo": "x".repeat(photo)});
            assert_eq!(issued_credential(&[format.credential("a", &badge)]), Some((format, badge.clone())));
            assert_eq!(offered_credential(&[format.offer("a", &badge)]), Some((format, badge)));
        }
        let bare = |content: Value| FormatAttachment {
            format: format.credential_name().to_owned(),
            attachment: Attachment { id: "a".to_owned(), data: AttachmentData::Json(content) },
        };
        let unknown = FormatAttachment { format: "other".to_owned(), ..bare(json!({"id": "x"})) };
        for attachments in [vec![bare(credential.clone())], vec![unknown.clone(), format.credential("a", &credential)]]
        {
            assert_eq!(issued_credential(&attachments), Some((format, credential.clone())));
        }
        let doubled = AttachmentData::Base64(br#"{"id": 1, "id": 2}"#.to_vec());
        let mut wrong = bare(json!(null));
        wrong.attachment.data = doubled;
        let long = bare(json!({"a": "x".repeat(MAX_ATTACHED_BYTES)}));
        for attachments in [vec![unknown], vec![bare(json!([1]))], vec![wrong], vec![long], vec![]] {
            assert_eq!(issued_credential(&attachments), None);
        }
    }
}
