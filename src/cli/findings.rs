//! The findings of a check: a table or JSON, and a failure when one of them is bad.

use anyhow::bail;
use serde_json::{Value, json};

use super::output::{print_json, print_line, render_table};

/// A finding with the setting, or the part, that it is about.
pub(super) struct CheckFinding {
    pub subject: &'static str,
    pub grade: Grade,
    pub detail: String,
}

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grade {
    /// Nothing is to be done.
    Good,
    /// Something is to be done soon.
    Warning,
    /// Something does not work.
    Bad,
}

impl CheckFinding {
    pub(super) fn good(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { subject, grade: Grade::Good, detail: detail.into() }
    }

    pub(super) fn warning(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { subject, grade: Grade::Warning, detail: detail.into() }
    }

    pub(super) fn bad(subject: &'static str, detail: impl Into<String>) -> Self {
        Self { subject, grade: Grade::Bad, detail: detail.into() }
    }
}

/// Prints all findings. Fails when one of them is bad.
pub(super) fn report(findings: &[CheckFinding], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let row = |one: &CheckFinding| {
            let mut row = json!({"what": one.subject, "ok": one.grade != Grade::Bad, "found": one.detail});
            if one.grade == Grade::Warning {
                row["warning"] = true.into();
            }
            row
        };
        let rows: Vec<Value> = findings.iter().map(row).collect();
        print_json(&rows)?;
    } else {
        let mark = |one: &CheckFinding| {
            let grade = match one.grade {
                Grade::Good => "ok  ",
                Grade::Warning => "WARN",
                Grade::Bad => "FAIL",
            };
            format!("{grade} {}", one.subject)
        };
        let rows: Vec<_> = findings.iter().map(|one| (mark(one), one.detail.clone())).collect();
        print_line(render_table(&rows).trim_end());
    }
    let bad = findings.iter().filter(|one| one.grade == Grade::Bad).count();
    if bad > 0 {
        bail!("{bad} of {} checks failed", findings.len());
    }
    Ok(())
}
