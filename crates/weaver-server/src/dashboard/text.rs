//! Untrusted text on a page, and how pages write durations, times and numbers.
//!
//! maud escapes markup. Control and bidirectional formatting characters would still change how a page reads
//! without being seen: they are shown as their code point.

use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, PreEscaped, html};
use weaver_core::time::Timestamp;

/// Longer documents are cut; the API returns them whole.
pub(super) const SHOWN_MAX_BYTES: usize = 64 * 1024;

/// The text, escaped, with invisible characters shown as `U+XXXX`.
pub(super) fn plain(text: &str) -> Markup {
    if !text.contains(is_hidden) {
        return html! { (text) };
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut clean = String::new();
    for c in text.chars() {
        if !is_hidden(c) {
            clean.push(c);
            continue;
        }
        let _ = write!(out, "{}", html! { (clean) }.into_string()); // Writing to a String cannot fail.
        clean.clear();
        out.push_str(
            &html! { span.hidden title="Invisible character" { (format!("U+{:04X}", c as u32)) } }
                .into_string(),
        );
    }
    out.push_str(&html! { (clean) }.into_string());
    PreEscaped(out)
}

/// For attributes, which cannot hold elements: invisible characters become U+FFFD.
pub(super) fn plain_attribute(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// Whether it changes how text reads without being seen. Line breaks and tabs do not.
pub(super) fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{061c}' => true,
        '\u{2028}' | '\u{2029}' => true,
        c => c.is_control(),
    }
}

/// Indented JSON. Works on the text, not on parsed values: numbers keep every digit, members their order.
pub(super) fn pretty_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut input = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth.min(100)).for_each(|_| out.push_str("  "));
    };
    while let Some(c) = input.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while input.peek().is_some_and(|c| c.is_ascii_whitespace()) {
                    input.next();
                }
                if matches!(input.peek(), Some('}' | ']')) {
                    out.extend(input.next());
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// At most [`SHOWN_MAX_BYTES`] of a document, and whether that is all of it.
pub(super) fn beginning(text: &str) -> (&str, bool) {
    if text.len() <= SHOWN_MAX_BYTES {
        return (text, true);
    }
    let end = (0..=SHOWN_MAX_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    (&text[..end], false)
}

/// A duration in its two largest units, like `1 h 2 min`.
pub(super) fn span(span: Duration) -> String {
    let ms = span.as_millis();
    let (seconds, minutes, hours, days) = (ms / 1000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match () {
        () if ms < 1000 => format!("{ms} ms"),
        () if seconds < 10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        () if minutes < 1 => format!("{seconds} s"),
        () if hours < 1 => format!("{minutes} min {} s", seconds % 60),
        () if days < 1 => format!("{hours} h {} min", minutes % 60),
        () => format!("{days} d {} h", hours % 24),
    }
}

/// A relative time, like `3 min ago` or `in 5 s`; the timestamp itself is in the title.
pub(super) fn when(at: Timestamp, now: Timestamp) -> Markup {
    let shown = if at > now {
        format!("in {}", coarse(at.since(now)))
    } else {
        let ago = now.since(at);
        if ago < Duration::from_secs(2) { "just now".to_owned() } else { format!("{} ago", coarse(ago)) }
    };
    html! { time datetime=(at) title=(at) { (shown) } }
}

fn coarse(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A message as a sentence, with a capital and a full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

/// Digits grouped by thousands with a narrow space.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A POSIX shell word, in single quotes if it needs them.
pub(super) fn shell_word(text: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | '=');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invisible_character_is_shown_as_its_code_point_and_markup_is_text() {
        let shown = plain("a\u{202e}<b>\u{1b}[0m").into_string();
        assert!(
            shown.contains("U+202E") && shown.contains("&lt;b&gt;") && shown.contains("U+001B"),
            "{shown}"
        );
        assert_eq!(plain("two\nlines").into_string(), "two\nlines");
    }

    #[test]
    fn pretty_json_keeps_digits_order_and_strings() {
        let text = r#"{"z":12345678901234567890.10,"a":["x,{y}\"",{}],"e":[ ]}"#;
        let shown = pretty_json(text);
        assert_eq!(
            shown,
            "{\n  \"z\": 12345678901234567890.10,\n  \"a\": [\n    \"x,{y}\\\"\",\n    {}\n  ],\n  \"e\": []\n}"
        );
    }

    #[test]
    fn durations_numbers_and_shell_words_are_formatted_for_reading() {
        assert_eq!(span(Duration::from_millis(950)), "950 ms");
        assert_eq!(span(Duration::from_secs(3_725)), "1 h 2 min");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(shell_word("it's; rm"), r"'it'\''s; rm'");
    }
}
