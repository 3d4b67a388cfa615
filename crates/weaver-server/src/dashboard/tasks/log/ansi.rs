//! ANSI colours as CSS classes. Every other escape sequence is removed.

#[cfg(test)]
mod fuzz;

use maud::{Markup, PreEscaped, html};

use crate::dashboard::text::plain;

#[derive(Default, Clone, Copy, PartialEq)]
struct Style {
    bold: bool,
    colour: Option<u8>,
    ground: Option<u8>,
}

impl Style {
    fn class(self) -> String {
        let mut classes = Vec::new();
        classes.extend(self.bold.then(|| "b".to_owned()));
        classes.extend(self.colour.map(|number| format!("c{number}")));
        classes.extend(self.ground.map(|number| format!("g{number}")));
        classes.join(" ")
    }

    /// Applies the codes of one SGR sequence, `ESC [ … m`.
    fn apply(&mut self, codes: &str) {
        let mut codes = codes.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                22 => self.bold = false,
                30..=37 => self.colour = Some((code - 30) as u8),
                90..=97 => self.colour = Some((code - 90 + 8) as u8),
                39 => self.colour = None,
                40..=47 => self.ground = Some((code - 40) as u8),
                100..=107 => self.ground = Some((code - 100 + 8) as u8),
                49 => self.ground = None,
                // Of 256-colour and true-colour codes, only the first sixteen of 256 have a class.
                38 | 48 => {
                    let number = match codes.next() {
                        Some(5) => codes
                            .next()
                            .and_then(|number| u8::try_from(number).ok())
                            .filter(|number| *number < 16),
                        Some(2) => {
                            codes.by_ref().take(3).for_each(drop);
                            None
                        }
                        _ => None,
                    };
                    if code == 38 { self.colour = number } else { self.ground = number }
                }
                _ => {}
            }
        }
    }
}

pub(super) fn coloured(text: &str) -> Markup {
    let text = text.trim_end_matches(['\n', '\r']);
    if !text.contains('\u{1b}') {
        return plain(text);
    }
    let (mut out, mut style) = (String::with_capacity(text.len() * 2), Style::default());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        push(&mut out, &rest[..at], style);
        rest = &rest[at + 1..];
        let (codes, after) = sequence(rest);
        if let Some(codes) = codes {
            style.apply(codes);
        }
        rest = after;
    }
    push(&mut out, rest, style);
    PreEscaped(out)
}

fn push(out: &mut String, text: &str, style: Style) {
    if text.is_empty() {
        return;
    }
    let shown = plain(text);
    let shown = if style == Style::default() {
        shown
    } else {
        html! { span class=(style.class()) { (shown) } }
    };
    out.push_str(&shown.into_string());
}

/// The sequence after an escape: its codes if it is SGR, and the text that follows it.
fn sequence(rest: &str) -> (Option<&str>, &str) {
    let bytes = rest.as_bytes();
    match bytes.first() {
        Some(b'[') => {
            let end = bytes.iter().skip(1).position(|byte| (0x40..=0x7e).contains(byte)).map(|at| at + 1);
            match end {
                Some(end) => (Some(&rest[1..end]).filter(|_| bytes[end] == b'm'), &rest[end + 1..]),
                None => (None, ""),
            }
        }
        // OSC, DCS, APC and PM strings end with BEL or with ESC and a backslash.
        Some(b']' | b'P' | b'_' | b'^') => {
            let bel = rest.find('\u{7}').map(|at| at + 1);
            let end = rest.find("\u{1b}\\").map(|at| at + 2);
            let end = [bel, end].into_iter().flatten().min().unwrap_or(rest.len());
            (None, &rest[end..])
        }
        Some(byte) if byte.is_ascii() => (None, &rest[1..]),
        _ => (None, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        coloured(text).into_string()
    }

    #[test]
    fn colours_become_classes_and_markup_stays_text() {
        assert_eq!(
            shown("\u{1b}[1;31mred <b>\u{1b}[0m plain\n"),
            "<span class=\"b c1\">red &lt;b&gt;</span> plain"
        );
        assert_eq!(shown("\u{1b}[38;5;10mx\u{1b}[39my"), "<span class=\"c10\">x</span>y");
        assert_eq!(shown("\u{1b}[38;2;1;2;3;1mx"), "<span class=\"b\">x</span>");
    }

    #[test]
    fn other_escape_sequences_are_removed_and_truncated_ones_do_not_panic() {
        assert_eq!(shown("a\u{1b}[2Jb\u{1b}]8;;javascript:alert(1)\u{7}c\u{1b}]0;t\u{1b}\\d"), "abcd");
        for truncated in ["\u{1b}", "\u{1b}[", "\u{1b}[31", "\u{1b}]x", "\u{1b}ä", "\u{1b}[\u{fffd}1m"] {
            let _ = shown(truncated);
        }
    }
}
