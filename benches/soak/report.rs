//! The table.

use std::collections::BTreeMap;

use crate::{faults::Struck, verdict::Verdict, writers::Write};

/// Everything there is to tell.
pub struct Report {
    pub verdict: Verdict,
    pub struck: Struck,
    pub writes: Vec<Write>,
    /// What became of calls.
    pub gone: Vec<(&'static str, u64)>,
    pub seconds: f64,
    pub seed: u64,
    /// What servers did that nobody ordered.
    pub notes: Vec<String>,
}

/// Faults that are told one by one.
const TOLD: usize = 40;

fn table(title: &str, rows: impl IntoIterator<Item = (String, String)>) {
    println!("\n| {title} | |\n|---|---|");
    for (name, value) in rows {
        println!("| {name} | {value} |");
    }
}

fn counted<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

impl Report {
    pub fn print(&self) {
        let Verdict { lost, doubled, ghost, undecided, untrue, open_records, open_rows, faults } = &self.verdict;
        let ended = || self.writes.iter().filter_map(|write| write.end.as_ref());
        let words = counted(ended().map(|end| end.word()));
        let of = |word: &str| words.get(word).copied().unwrap_or(0);
        let kills: u64 = self.struck.iter().filter(|(name, _)| name.contains("SIG")).map(|(_, count)| count).sum();
        let rows = [
            ("writes", self.writes.len().to_string()),
            ("ok", of("ok").to_string()),
            ("expired", of("expired").to_string()),
            ("failed", of("failed").to_string()),
            ("lost", lost.to_string()),
            ("doubled", doubled.to_string()),
            ("ghost", ghost.to_string()),
            ("undecided", undecided.to_string()),
            ("untrue", untrue.to_string()),
            ("audit records open", open_records.to_string()),
            ("journal rows open", open_rows.map_or("unknown".to_owned(), |count| count.to_string())),
            ("faults struck", self.struck.values().sum::<u64>().to_string()),
            ("processes ended", kills.to_string()),
            ("seconds", format!("{:.0}", self.seconds)),
            ("writes per second", format!("{:.1}", self.writes.len() as f64 / self.seconds)),
            ("seed", self.seed.to_string()),
        ];
        table("soak", rows.map(|(name, value)| (name.to_owned(), value)));
        table("fault", self.struck.iter().map(|(name, count)| ((*name).to_owned(), count.to_string())));
        let codes = counted(ended().map(|end| end.code()));
        table("final answer", codes.into_iter().map(|(code, count)| (code, count.to_string())));
        let heard = self.writes.iter().flat_map(|write| &write.answers).map(|(_, told)| told.as_str());
        let is_code = |told: &&str| told.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let passing = counted(heard.filter(is_code)).into_iter();
        let others = self.gone.iter().map(|(name, count)| ((*name).to_owned(), *count));
        table("answer that is not final", passing.chain(others).map(|(name, count)| (name, count.to_string())));
        let notes = counted(self.notes.iter().map(String::as_str));
        if !notes.is_empty() {
            table("nobody ordered", notes.into_iter().map(|(note, count)| (note, count.to_string())));
        }
        for fault in faults.iter().take(TOLD) {
            println!("\n- {fault}");
        }
        if faults.len() > TOLD {
            println!("\n- and {} more", faults.len() - TOLD);
        }
    }
}
