//! The table.

use std::collections::BTreeMap;

use crate::{fault_injector::FaultCounts, verdict::SoakVerdict, writer_pool::SoakWrite};

/// Everything there is to tell.
pub struct SoakReport {
    pub verdict: SoakVerdict,
    pub fault_counts: FaultCounts,
    pub writes: Vec<SoakWrite>,
    /// The number of calls by outcome.
    pub call_counts: Vec<(&'static str, u64)>,
    pub seconds: f64,
    pub seed: u64,
    /// Ends of servers that the fault injector did not cause.
    pub notes: Vec<String>,
}

/// Faults that are printed one by one.
const MAX_PRINTED_FAULTS: usize = 40;

fn table(title: &str, rows: impl IntoIterator<Item = (String, String)>) {
    println!("\n| {title} | |\n|---|---|");
    for (name, value) in rows {
        println!("| {name} | {value} |");
    }
}

fn count_by_name<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

impl SoakReport {
    pub fn print(&self) {
        let SoakVerdict {
            lost_by_chain,
            lost,
            duplicated: doubled,
            denied_but_executed: ghost,
            undecided,
            incorrect: untrue,
            record_lost,
            record_lost_duplicated,
            record_lost_denied,
            open_records,
            open_rows,
            faults,
        } = &self.verdict;
        let ended = || self.writes.iter().filter_map(|write| write.outcome.as_ref());
        let words = count_by_name(ended().map(|end| end.label()));
        let of = |word: &str| words.get(word).copied().unwrap_or(0);
        let kills: u64 =
            self.fault_counts.iter().filter(|(name, _)| name.contains("SIG")).map(|(_, count)| count).sum();
        let rows = [
            ("writes", self.writes.len().to_string()),
            ("ok", of("ok").to_string()),
            ("expired", of("expired").to_string()),
            ("failed", of("failed").to_string()),
            ("abandoned", of("abandoned").to_string()),
            ("ok, and lost by the chain with its block", lost_by_chain.to_string()),
            ("lost", lost.to_string()),
            ("doubled", doubled.to_string()),
            ("ghost", ghost.to_string()),
            ("undecided", undecided.to_string()),
            ("untrue", untrue.to_string()),
            ("under way when the journal vanished, apart", record_lost.to_string()),
            ("of these made twice", record_lost_duplicated.to_string()),
            ("of these made and denied", record_lost_denied.to_string()),
            ("audit records open", open_records.to_string()),
            ("journal rows open", open_rows.map_or("unknown".to_owned(), |count| count.to_string())),
            ("faults struck", self.fault_counts.values().sum::<u64>().to_string()),
            ("processes ended", kills.to_string()),
            ("seconds", format!("{:.0}", self.seconds)),
            ("writes per second", format!("{:.1}", self.writes.len() as f64 / self.seconds)),
            ("seed", self.seed.to_string()),
        ];
        table("soak", rows.map(|(name, value)| (name.to_owned(), value)));
        table("fault", self.fault_counts.iter().map(|(name, count)| ((*name).to_owned(), count.to_string())));
        let codes = count_by_name(ended().map(|end| end.code()));
        table("final answer", codes.into_iter().map(|(code, count)| (code, count.to_string())));
        let heard = self.writes.iter().flat_map(|write| &write.answers).map(|(_, told)| told.as_str());
        let is_code = |told: &&str| told.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let passing = count_by_name(heard.filter(is_code)).into_iter();
        let others = self.call_counts.iter().map(|(name, count)| ((*name).to_owned(), *count));
        table("answer that is not final", passing.chain(others).map(|(name, count)| (name, count.to_string())));
        let notes = count_by_name(self.notes.iter().map(String::as_str));
        if !notes.is_empty() {
            table("nobody ordered", notes.into_iter().map(|(note, count)| (note, count.to_string())));
        }
        for fault in faults.iter().take(MAX_PRINTED_FAULTS) {
            println!("\n- {fault}");
        }
        if faults.len() > MAX_PRINTED_FAULTS {
            println!("\n- and {} more", faults.len() - MAX_PRINTED_FAULTS);
        }
    }
}
