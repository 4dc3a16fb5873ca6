//! Every command of svc in README and the pages is one that this release has.

use std::path::{Path, PathBuf};

use clap::{CommandFactory, error::ErrorKind};

use super::CommandLine;

/// Values that stand for any of their kind.
const PLACEHOLDERS: [(&str, &str); 5] =
    [("N", "1"), ("H", "1"), ("PORT", "1"), ("URL", "http://a.example"), ("TIME", "1s")];

/// A command of a page. One in running text may lack arguments.
#[derive(Debug, PartialEq, Eq)]
struct PageCommand {
    line: usize,
    words: Vec<String>,
    is_whole: bool,
}

/// The words of a shell line up to a comment, a pipe or a redirection.
fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '#' | '|' | '>' | '&' | ';') if word.is_none() => break,
            (None, '>') if word.as_deref() == Some("2") => {
                word = None;
                break;
            }
            (None, ' ') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// The arguments of svc in a line, with `svc` as the first; none when the line runs another program.
fn find_command(line: &str) -> Option<Vec<String>> {
    let is_assignment =
        |word: &String| word.split('=').next().is_some_and(|name| name.len() < word.len() && !name.is_empty());
    let words: Vec<String> = split_words(line).into_iter().skip_while(is_assignment).collect();
    let program = words.first()?;
    (program == "svc" || program.ends_with("/svc")).then_some(words)
}

/// One command for each of `a|b|c`, where subcommands are listed so.
fn expand(words: &[String]) -> Vec<Vec<String>> {
    words.iter().fold(vec![Vec::new()], |commands, word| {
        let is_list = word.contains('|')
            && word.chars().all(|character| character.is_ascii_lowercase() || "|-".contains(character));
        let choices: Vec<&str> = if is_list { word.split('|').collect() } else { vec![word.as_str()] };
        let choices = choices
            .into_iter()
            .map(|choice| PLACEHOLDERS.iter().find(|(name, _)| *name == choice).map_or(choice, |(_, value)| *value));
        choices
            .flat_map(|choice| commands.iter().map(move |command| [command.as_slice(), &[choice.to_owned()]].concat()))
            .collect()
    })
}

fn commands_of(page: &str) -> Vec<PageCommand> {
    let (mut found, mut fence, mut continued) = (Vec::new(), None, String::new());
    for (position, line) in page.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            fence = if fence.is_none() { Some(language.to_owned()) } else { None };
            continue;
        }
        let mut add = |text: &str, is_block: bool| {
            let Some(words) = find_command(text) else { return };
            let is_cut = words.iter().any(|word| word == "…");
            // Brackets hold words that may be left out.
            let without_brackets = |word: String| word.trim_start_matches('[').trim_end_matches(']').to_owned();
            let words: Vec<String> = words.into_iter().take_while(|word| word != "…").map(without_brackets).collect();
            for words in expand(&words) {
                found.push(PageCommand { line: position + 1, words, is_whole: is_block && !is_cut });
            }
        };
        match fence.as_deref() {
            Some("sh") => {
                continued.push_str(line.trim_end_matches('\\'));
                if !line.ends_with('\\') {
                    add(&std::mem::take(&mut continued), true);
                }
            }
            Some(_) => {}
            None => line.split('`').skip(1).step_by(2).for_each(|code| add(code, false)),
        }
    }
    found
}

/// Returns the problem of a command, if the command line does not have it.
fn problem(command: &PageCommand) -> Option<String> {
    let error = CommandLine::command().try_get_matches_from(&command.words).err()?;
    let is_incomplete = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::InvalidValue
    );
    let is_request = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_request && (command.is_whole || !is_incomplete)).then(|| error.to_string())
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).expect("pages").map(|entry| entry.expect("a page").path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root.join(name)));
    pages
}

#[test]
fn every_command_of_a_page_is_one_of_this_release() {
    let (mut problems, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for command in commands_of(&text) {
            count += 1;
            if let Some(problem) = problem(&command) {
                problems.push(format!("{}:{}: {}: {problem}", page.display(), command.line, command.words.join(" ")));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 150, "only {count} commands were found");
}

#[test]
fn commands_are_found_in_blocks_and_in_code_and_wrong_ones_are_named() {
    let page = "`svc agent did|check` and `svc no`, `svc peer …`\n```sh\nA=b svc call x y=z \\\n  --json 2>log & # more\ncurl a\n```\n";
    let found = commands_of(page);
    let words: Vec<String> = found.iter().map(|command| command.words.join(" ")).collect();
    assert_eq!(words, ["svc agent did", "svc agent check", "svc no", "svc peer", "svc call x y=z --json"]);
    let wrong: Vec<bool> = found.iter().map(|command| problem(command).is_some()).collect();
    assert_eq!(wrong, [false, false, true, false, false]);
    let gone = PageCommand { line: 1, words: expand(&split_words("svc devnet --gone"))[0].clone(), is_whole: false };
    assert!(problem(&gone).is_some_and(|problem| problem.contains("--gone")));
}

#[test]
fn every_command_and_every_option_has_a_sentence() {
    fn walk(command: &clap::Command, missing: &mut Vec<String>) {
        if command.get_about().is_none() {
            missing.push(command.get_name().to_owned());
        }
        for argument in command.get_arguments().filter(|argument| argument.get_help().is_none()) {
            missing.push(format!("{} {}", command.get_name(), argument.get_id()));
        }
        command.get_subcommands().filter(|command| !command.is_hide_set()).for_each(|command| walk(command, missing));
    }
    let mut missing = Vec::new();
    walk(&CommandLine::command(), &mut missing);
    assert!(missing.is_empty(), "{missing:?}");
}
