//! Lists of a node: it gives a bounded number of entries and no cursor. A list is read to its end, or refused because it may be cut.

use std::collections::HashSet;

use svc_wire::{
    proto::svc::pp::v1::{Participant, QueryListParticipantsRequest, QueryListParticipantsResponse},
    timestamp,
};

use super::node_client::{NodeClient, NodeClientError};

/// Entries of a list, the most that a node gives.
pub const LIST_LIMIT: u32 = 1_024;
/// Pages of participants that are read of one list.
const MAX_PAGES: usize = 256;

/// A list of a node that may lack entries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the list of {subject} may be cut: {reason}")]
pub struct CutList {
    subject: String,
    reason: String,
}

impl CutList {
    /// Names the list, and the reason why it may be cut.
    pub fn new(subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { subject: subject.into(), reason: reason.into() }
    }

    fn at_the_limit(subject: impl Into<String>) -> Self {
        Self::new(subject, format!("the node gives {LIST_LIMIT} entries at most"))
    }
}

impl From<CutList> for NodeClientError {
    fn from(error: CutList) -> Self {
        Self::unreadable(error.to_string())
    }
}

/// Returns the entries of a list without pages.
///
/// # Errors
/// When the list is as long as a node gives, so that it may be cut.
pub fn require_whole<T>(subject: &str, entries: Vec<T>) -> Result<Vec<T>, CutList> {
    if entries.len() < LIST_LIMIT as usize { Ok(entries) } else { Err(CutList::at_the_limit(subject)) }
}

/// The page after a page of participants.
#[derive(Debug, PartialEq, Eq)]
enum NextPage {
    /// There is none.
    End,
    /// It begins with the participants of this instant, nanoseconds since the epoch. They are in the order of their changes.
    From(i128),
    /// It cannot be asked for: the page has participants of one instant only.
    Unreachable,
}

fn next_page(page: &[Participant], begins_at: Option<i128>) -> NextPage {
    if page.len() < LIST_LIMIT as usize {
        return NextPage::End;
    }
    match page.last().and_then(|last| last.modified.as_ref()).map(timestamp::unix_nanos) {
        Some(modified) if begins_at != Some(modified) => NextPage::From(modified),
        _ => NextPage::Unreachable,
    }
}

impl NodeClient {
    /// Queries `ListParticipants`, page after page. A participant that changes meanwhile is there once, as it was read last.
    ///
    /// # Errors
    /// Every [`NodeClientError`]; `Protocol` for a list that cannot be read to its end.
    pub async fn list_participants(
        &self,
        path: &str,
        wanted: QueryListParticipantsRequest,
    ) -> Result<Vec<Participant>, NodeClientError> {
        // Another node may have another state.
        let node = self.pinned();
        let mut request = QueryListParticipantsRequest { response_max_size: LIST_LIMIT, ..wanted };
        let mut found: Vec<Participant> = Vec::new();
        for _ in 0..MAX_PAGES {
            let answer: QueryListParticipantsResponse = node.query(path, &request, 0).await?;
            let page = answer.participants;
            let next = next_page(&page, request.modified_after.as_ref().map(timestamp::unix_nanos));
            let ids: HashSet<u64> = page.iter().map(|one| one.id).collect();
            found.retain(|one| !ids.contains(&one.id));
            found.extend(page);
            match next {
                NextPage::End => return Ok(found),
                NextPage::From(modified) => request.modified_after = Some(timestamp::from_unix_nanos(modified)),
                NextPage::Unreachable => break,
            }
        }
        Err(CutList::at_the_limit(path).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_page_is_followed_by_one_that_begins_with_its_last_instant() {
        let at = timestamp::from_unix_nanos;
        let page = |len: usize, last: Option<i128>| {
            let mut page: Vec<Participant> = vec![Participant { modified: Some(at(1)), ..Participant::default() }; len];
            if let Some(one) = page.last_mut() {
                one.modified = last.map(at);
            }
            page
        };
        for (page, begins_at, expected) in [
            (page(0, None), None, NextPage::End),
            (page(1_023, Some(2)), None, NextPage::End),
            (page(1_024, Some(2)), None, NextPage::From(2)),
            (page(1_024, Some(2)), Some(1), NextPage::From(2)),
            (page(1_024, Some(2)), Some(2), NextPage::Unreachable),
            (page(1_024, None), None, NextPage::Unreachable),
        ] {
            assert_eq!(next_page(&page, begins_at), expected, "{} from {begins_at:?}", page.len());
        }
        assert!(require_whole("/p", vec![0; 1_023]).is_ok());
        let error = require_whole("/p", vec![0; 1_024]).expect_err("it may be cut").to_string();
        assert_eq!(error, "the list of /p may be cut: the node gives 1024 entries at most");
    }
}
