//! The findings of a check: a table or JSON, and a failure when one of them is bad.

use anyhow::bail;
use serde_json::{Value, json};

use super::output::{print_json, print_line, render_table};

/// A finding with the setting, or the part, that it is about.
pub(super) struct CheckFinding {
    pub subject: &'static str,
    pub has_passed: bool,
    pub detail: String,
}

impl CheckFinding {
    pub(super) fn good(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { subject, has_passed: true, detail: detail.into() }
    }

    pub(super) fn bad(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { subject, has_passed: false, detail: detail.into() }
    }
}

/// Prints all findings. Fails when one of them is bad.
pub(super) fn report(findings: &[CheckFinding], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let row = |one: &CheckFinding| json!({"what": one.subject, "ok": one.has_passed, "found": one.detail});
        let rows: Vec<Value> = findings.iter().map(row).collect();
        print_json(&rows)?;
    } else {
        let mark = |one: &CheckFinding| format!("{} {}", if one.has_passed { "ok " } else { "BAD" }, one.subject);
        let rows: Vec<_> = findings.iter().map(|one| (mark(one), one.detail.clone())).collect();
        print_line(render_table(&rows).trim_end());
    }
    let bad = findings.iter().filter(|one| !one.has_passed).count();
    if bad > 0 {
        bail!("{bad} of {} checks failed", findings.len());
    }
    Ok(())
}
