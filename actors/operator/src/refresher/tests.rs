//! The order of reads.

use super::{RefreshTrigger, core::RefreshQueue};

#[test]
fn requests_during_a_read_share_the_next_read() {
    let mut queue = RefreshQueue::default();
    assert!(queue.request(RefreshTrigger::Period, Some("a")));
    assert!(!queue.request(RefreshTrigger::Event, None));
    assert!(!queue.request(RefreshTrigger::WriteMismatch, Some("b")));
    assert_eq!(queue.finish(), (vec!["a"], Some(RefreshTrigger::WriteMismatch)));
    assert!(queue.is_reading(), "the next read has started");
    assert_eq!(queue.finish(), (vec!["b"], None));
    assert!(!queue.is_reading());
    assert!(queue.request(RefreshTrigger::Event, Some("c")));
}
