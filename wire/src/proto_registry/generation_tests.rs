//! Compares the derived descriptors of each generation with the table of the chain: the messages of the oldest one, and the changes since.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    NodeGeneration,
    contract_tests::{Fields, compiled, fields_of_message, fields_of_row, table, text},
};

/// Part of the names of everything about schema authorization policies.
const POLICIES: &str = "SchemaAuthorizationPolic";

/// The generation with which a change begins. Two builds that share their descriptors are one.
fn first_generation(row: &Value) -> NodeGeneration {
    match text(row, "since") {
        "0.10.1" => NodeGeneration::N1,
        "0.10.4" => NodeGeneration::N2,
        other => NodeGeneration::parse(other).unwrap_or_else(|| panic!("{row}")),
    }
}

/// The full name of a field that the table of changes shortens.
fn full_name(short: &str) -> String {
    match short.split_once("..._") {
        Some((role, rest)) => format!("credential_schema_{role}_validation_validity_period_{rest}"),
        None if short == "schema_max_size" => format!("credential_schema_{short}"),
        None => short.to_owned(),
    }
}

/// The fields of a message after its fields were numbered otherwise: types and lists are as before.
fn renumbered(row: &Value, before: &Fields) -> Fields {
    let new = row["fields"].as_object().expect("an object").iter();
    let fields = new.map(|(short, number)| {
        let name = full_name(short);
        let old = before.values().find(|(known, ..)| *known == name).cloned();
        // The type of a field that no earlier generation has stands at the beginning of the note.
        let added = || (name.clone(), text(row, "note").split(',').next().unwrap_or_default().to_owned(), false);
        (number.as_u64().expect("a number"), old.unwrap_or_else(added))
    });
    fields.collect()
}

/// The numbers of the fields in a text like `Name {1 one, 2 other}`, with the name.
fn entry_of(text: &str) -> (&str, Vec<(u64, &str)>) {
    let (name, fields) = text.split_once(" {").expect("a message");
    let fields = fields.trim_end_matches('}').split(", ").map(|field| {
        let (number, name) = field.split_once(' ').expect("a field");
        (number.parse().expect("a number"), name)
    });
    (name, fields.collect())
}

/// Changes the messages by a row of the table.
fn apply(row: &Value, messages: &mut BTreeMap<String, Fields>) {
    let name = text(row, "name");
    if row["removed"].is_string() {
        let known = messages.len();
        messages.retain(|name, _| !name.contains(POLICIES));
        // The type, and question and answer of three messages and two queries.
        assert_eq!(known - messages.len(), 11, "{row}");
        return;
    }
    let fields = messages.get_mut(name).unwrap_or_else(|| panic!("{row}"));
    for number in row["removed"].as_array().into_iter().flatten() {
        assert!(fields.remove(&number.as_u64().expect("a number")).is_some(), "{row}");
    }
    for gone in row["removed_names"].as_array().into_iter().flatten() {
        assert!(fields.values().any(|(known, ..)| gone == known), "{row}");
    }
    if row["fields"].is_object() {
        *fields = renumbered(row, fields);
    }
    if let Some((field, entry)) = row["added"].as_str().and_then(|added| added.split_once(": list of ")) {
        // The table has no number for it: the next free one.
        let number = fields.keys().last().expect("fields") + 1;
        let module = name.rsplit_once('.').expect("a package").0;
        fields.insert(number, (field.to_owned(), format!("{module}.{}", entry_of(entry).0), true));
    }
}

#[test]
fn each_message_of_each_generation_has_the_fields_of_the_table() {
    let table = table();
    let rows = table["messages"].as_array().expect("messages");
    let changes = table["newer"]["changed"].as_array().expect("changes");
    let mut messages: BTreeMap<String, Fields> =
        rows.iter().map(|row| (text(row, "name").to_owned(), fields_of_row(row))).collect();
    let mut applied = 0;
    for generation in NodeGeneration::ALL {
        for row in changes.iter().filter(|row| first_generation(row) == generation) {
            let before = messages.clone();
            apply(row, &mut messages);
            assert_ne!(messages, before, "{row} changes nothing");
            applied += 1;
        }
        let registry = compiled().of_generation(generation).expect("descriptors");
        for name in rows.iter().map(|row| text(row, "name")) {
            let found = registry.message_descriptor(name).ok().map(|message| fields_of_message(&message));
            assert_eq!(found.as_ref(), messages.get(name), "{generation}: {name}");
        }
    }
    assert_eq!(applied, changes.len());
}

#[test]
fn messages_and_queries_are_there_up_to_the_generation_that_removes_them_and_from_the_one_that_adds_them() {
    let table = table();
    let changes = table["newer"]["changed"].as_array().expect("changes");
    let row = |name: &str| changes.iter().find(|row| text(row, "name") == name).unwrap_or_else(|| panic!("{name}"));
    let policies_end = first_generation(row("svc.cs.v1.SchemaAuthorizationPolicy"));
    let queue = row("svc.de.v1.GenesisState");
    let (entry, fields) = entry_of(text(queue, "added").split_once(": list of ").expect("a list").1);
    for generation in NodeGeneration::ALL {
        let registry = compiled().of_generation(generation).expect("descriptors");
        let of_policies = registry.rpc_methods().filter(|rpc| rpc.path.contains(POLICIES)).count();
        assert_eq!(of_policies, if generation < policies_end { 5 } else { 0 }, "{generation}");
        let delegable = table["meta"]["delegable_type_urls"].as_array().expect("a list").iter();
        let delegable = delegable.filter(|url| registry.msg_type_urls().iter().any(|known| *url == known)).count();
        let newer = table["newer"]["delegable_type_urls_count"].as_u64().expect("a number");
        assert_eq!(delegable as u64, if generation < policies_end { 29 } else { newer }, "{generation}");
        let found = registry.message_descriptor(&format!("svc.de.v1.{entry}")).ok().map(|message| {
            fields_of_message(&message).into_iter().map(|(number, (name, ..))| (number, name)).collect::<Vec<_>>()
        });
        let expected: Vec<(u64, String)> = fields.iter().map(|(number, name)| (*number, (*name).to_owned())).collect();
        assert_eq!(found, (generation >= first_generation(queue)).then_some(expected), "{generation}");
        let council = registry.message_descriptor("svc.poa.v1.QueryCouncilResponse");
        assert_eq!(council.is_ok(), generation >= NodeGeneration::N4, "{generation}");
    }
}
