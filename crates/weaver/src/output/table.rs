//! Tables that fit the terminal: the widest columns shrink, truncated cells end with `…`, and wide characters
//! count as two columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::{Paint, Tone};

const GAP: usize = 2;
/// The least width of a column that shrinks.
const COLUMN_MIN: usize = 4;

#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { heading: heading.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.heading.len());
        self.rows.push(cells.into_iter().map(|cell| visible(&cell)).collect());
    }

    pub(crate) fn render(&self, width: Option<usize>, paint: Paint) -> String {
        let mut widths: Vec<usize> = self.heading.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (column, cell) in row.iter().enumerate() {
                widths[column] = widths[column].max(cell.width());
            }
        }
        if let Some(width) = width {
            shrink(&mut widths, width);
        }
        let mut text = paint.tone(Tone::Faint, &line(&self.heading, &widths));
        text.push('\n');
        for row in &self.rows {
            text.push_str(&line(row, &widths));
            text.push('\n');
        }
        text
    }
}

/// Truncates a text to a number of columns.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut taken = 1; // The ellipsis.
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken > columns {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// Replaces control characters and bidirectional overrides: text from tasks and servers must not move the
/// cursor, recolor the terminal or reorder characters.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(shown).collect()
}

fn shown(c: char) -> char {
    let is_bidi =
        matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_line_end = matches!(c, '\u{2028}' | '\u{2029}');
    if c.is_control() || is_bidi || is_line_end { '\u{fffd}' } else { c }
}

/// The same for output that contains such texts: newlines, tabs and our own colors stay.
pub(crate) fn visible_lines(text: &str, paint: Paint) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(code) = paint.code_at(rest) {
            kept.push_str(code);
            rest = &rest[code.len()..];
            continue;
        }
        kept.push(if matches!(c, '\n' | '\t') { c } else { shown(c) });
        rest = &rest[c.len_utf8()..];
    }
    kept
}

/// Shrinks the widest columns until all fit or none can shrink further.
fn shrink(widths: &mut [usize], width: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > COLUMN_MIN => *widest -= 1,
            _ => return,
        }
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, &width) in cells.iter().zip(widths) {
        let cell = fit(cell, width);
        let padding = width.saturating_sub(cell.width()) + GAP;
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["ID", "TYPE", "ERROR"]);
        table.row(["1".to_owned(), "send".to_owned(), "connection refused by mail.example.org".to_owned()]);
        table.row(["22".to_owned(), "日本語".to_owned(), "全角の文字は二桁を取ります".to_owned()]);
        table
    }

    #[test]
    fn columns_are_aligned_also_with_wide_characters() {
        let text = table().render(None, Paint::NONE);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ID  TYPE    ERROR");
        assert_eq!(lines[1], "1   send    connection refused by mail.example.org");
        assert_eq!(lines[2], "22  日本語  全角の文字は二桁を取ります");
    }

    #[test]
    fn a_table_fits_any_width_that_leaves_each_column_a_little() {
        for width in 16..60 {
            for line in table().render(Some(width), Paint::NONE).lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
        let text = table().render(Some(24), Paint::NONE);
        assert_eq!(text.lines().nth(1), Some("1   send    connection …"));
    }

    #[test]
    fn truncated_text_ends_with_an_ellipsis_and_never_inside_a_wide_character() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("日本語", 4), "日…");
    }

    #[test]
    fn of_control_characters_only_newlines_tabs_and_our_own_colors_stay() {
        let text = "a\tb\n\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07 \u{202e}gpj.exe\u{2066} \r\u{200f}";
        let colourless = "a\tb\n\u{fffd}[31mred\u{fffd}[0m \u{fffd}[2J\u{fffd}]0;title\u{fffd} \u{fffd}gpj.exe\u{fffd} \u{fffd}\u{fffd}";
        assert_eq!(visible_lines(text, Paint::NONE), colourless);
        let coloured = visible_lines(text, Paint::choose("always", false));
        assert!(coloured.contains("\x1b[31mred\x1b[0m \u{fffd}[2J"), "{coloured:?}");
    }

    #[test]
    fn escape_sequences_in_cells_do_nothing() {
        let mut table = Table::new(["A"]);
        table.row(["\x1b[2Jx\ny".to_owned()]);
        assert_eq!(table.render(None, Paint::NONE), "A\n\u{fffd}[2Jx\u{fffd}y\n");
    }
}
