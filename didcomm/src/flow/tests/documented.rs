//! The table of transitions as the documentation has it.

use std::path::Path;

use super::super::{FlowState, Side, Transition, Variant, transitions};

/// A row of the table in Markdown.
fn line(row: &Transition) -> String {
    let kind = match row.variant {
        None => "both",
        Some(Variant::Onboarding) => "onboarding",
        Some(Variant::Direct) => "direct",
    };
    let names = |states: &[FlowState]| states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
    let from = if row.from.is_empty() { "-".to_owned() } else { names(row.from) };
    let guards: Vec<String> = row
        .guards
        .iter()
        .map(|(guard, wanted)| format!("{}{}", if *wanted { "" } else { "not " }, guard.as_str()))
        .collect();
    let sends = row.sends.map_or("", |message| message.as_str());
    format!(
        "| {} | {kind} | {from} | {} | {} | {} | {sends} |",
        row.id,
        row.to.as_str(),
        row.trigger.as_str(),
        guards.join(", ")
    )
}

fn table(side: Side) -> String {
    let head = "| Row | Kind | From | To | Trigger | If | Sends |\n|---|---|---|---|---|---|---|\n";
    let rows: String = transitions().filter(|row| row.side == side).map(|row| line(row) + "\n").collect();
    format!("{head}{rows}")
}

#[test]
fn the_documentation_has_every_row_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/flows.md");
    let text = std::fs::read_to_string(&path).expect("docs/flows.md");
    for side in [Side::Applicant, Side::Validator] {
        let table = table(side);
        assert!(text.contains(&table), "docs/flows.md lacks this table:\n{table}");
    }
}
