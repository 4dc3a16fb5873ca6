//! The settings of a process, as its `--help` lists them.

use super::{Process, Setting, SettingDefault, all, former};

/// Columns of a terminal.
const WIDTH: usize = 100;
const INDENT: &str = "      ";

/// The settings of a process, one after the other, in lines of at most 100 columns.
pub fn settings_of(process: Process) -> String {
    let is_former = |setting: &Setting| former::ROWS.iter().any(|row| row.name == setting.name);
    let rows = all().filter(|setting| setting.processes.contains(&process) && !is_former(setting));
    let rows: Vec<String> = rows.map(entry).collect();
    format!("Environment:\n{}", rows.join("\n"))
}

/// The name, the sentence and the default of a setting. The marks for readers of a page are left out.
fn entry(setting: &Setting) -> String {
    let default = match setting.default {
        SettingDefault::Required => " [required]".to_owned(),
        SettingDefault::Words("") => String::new(),
        SettingDefault::Words(words) if words.starts_with("required") => format!(" [{words}]"),
        SettingDefault::Value(text) | SettingDefault::Words(text) => format!(" [default: {text}]"),
    };
    let secret = if setting.is_secret { " [secret]" } else { "" };
    wrap(&format!("{}  {}{default}{secret}", setting.name, setting.sentence).replace('`', "").replace(" (ours)", ""))
}

/// Breaks a text between words, with its first line two columns to the right and the others further.
fn wrap(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::from(" "));
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && !line.trim().is_empty() {
            lines.push(std::mem::replace(&mut line, INDENT[1..].to_owned()));
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}
