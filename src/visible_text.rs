//! Text of others in a form that a person can read and a terminal does not obey. Pure.

/// Whether a character moves the cursor, reorders text or cannot be seen. Data of a chain may contain it, and a terminal would obey.
pub(crate) fn is_treacherous(character: char) -> bool {
    let is_invisible = matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    character.is_control() || is_invisible
}

/// A text with characters that a terminal would obey in their escaped form.
pub(crate) fn visible(text: &str) -> String {
    text.chars()
        .map(|one| if is_treacherous(one) { one.escape_default().to_string() } else { one.to_string() })
        .collect()
}

/// Like [`visible`], for text of several lines.
pub(crate) fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}
