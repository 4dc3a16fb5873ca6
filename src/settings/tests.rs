//! Tests of the rows: each name once, its default is one of its values, and help and pages as the rows have them.

use std::{collections::BTreeSet, path::Path};

use super::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_row_stands_once_has_a_sentence_and_a_default_that_its_type_takes() {
    let mut names = BTreeSet::new();
    for setting in all() {
        assert!(names.insert(setting.name), "{} stands twice", setting.name);
        assert!(!setting.sentence.is_empty() && !setting.processes.is_empty(), "{}", setting.name);
        assert!(!setting.sentence.ends_with('.') && !setting.sentence.contains(['|', '\n']), "{}", setting.name);
        if let SettingDefault::Value(text) = setting.default {
            assert!(setting.kind.takes(text), "{} does not take {text}", setting.name);
        }
    }
    assert!(names.len() > 100, "{}", names.len());
    assert_eq!(secrets().count(), 9);
}

#[test]
fn a_type_names_what_it_takes() {
    for (kind, allowed, good, bad) in [
        (SettingType::PORT, "a port, 0 to 65535", "0", "65536"),
        (SettingType::MILLIS, "milliseconds, 1 to 86400000", "86400000", "0"),
        (chain::SVC_CORPORATION.kind, "a corporation id, 1 or more", "18446744073709551615", "0"),
        (chain::SVC_MIN_FREE_DISK.kind, "a number of bytes", "0", "-1"),
        (access::ENDPOINT_ACCESS_TOKEN_SECONDS.kind, "seconds, from 60 to 900", "60", "901"),
        (SettingType::Boolean, "true or false", "true", "yes"),
        (agent::AGENT_MODE.kind, "standalone, delegated", "delegated", "both"),
        (SettingType::IpAddress, "an IP address", "::1", "localhost"),
    ] {
        assert_eq!(kind.allowed(), allowed);
        assert!(kind.takes(good) && !kind.takes(bad), "{allowed}");
    }
}

#[test]
fn help_lists_the_settings_of_a_process_in_narrow_lines() {
    for process in [Process::Serve, Process::Indexer, Process::Agent, Process::Peer, Process::Journal, Process::Devnet]
    {
        let text = help::settings_of(process);
        for setting in all() {
            let is_listed = text.contains(&format!("\n  {}  ", setting.name));
            let is_former = former::ROWS.iter().any(|row| row.name == setting.name);
            assert_eq!(is_listed, setting.processes.contains(&process) && !is_former, "{process:?} {}", setting.name);
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    let serve = help::settings_of(Process::Serve);
    for entry in [
        "\n  SVC_TX_TIMEOUT_MS  wait for inclusion [default: 30000]\n",
        "\n  SVC_CORPORATION  id of the corporation it acts for [required]\n",
        "[required with http] [secret]\n",
    ] {
        assert!(serve.contains(entry), "{entry} in {serve}");
    }
}

#[test]
fn the_tables_of_pages_equal_the_recorded_ones() {
    let mut printed = BTreeSet::new();
    for table in pages::tables() {
        let path = root().join(table.page);
        let page = std::fs::read_to_string(&path).expect("a page");
        let written = table.written_into(&page).unwrap_or_else(|| panic!("{} has no {:?}", table.page, table.name));
        if std::env::var_os("SVC_RECORD").is_some() {
            std::fs::write(&path, &written).expect("recorded");
        } else {
            assert!(
                page == written,
                "{}, table {:?}: run with SVC_RECORD=1, look at the change",
                table.page,
                table.name
            );
        }
        printed.extend(table.rows.iter().map(|row| row.name));
    }
    let missing: Vec<&str> = all().map(|row| row.name).filter(|name| !printed.contains(name)).collect();
    let former: Vec<&str> = former::ROWS.iter().map(|row| row.name).collect();
    assert_eq!(missing, former, "these stand in no page");
}
