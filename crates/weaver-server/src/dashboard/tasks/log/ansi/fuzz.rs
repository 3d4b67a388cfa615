//! Fuzzed log lines: whatever their escape sequences, the page gets text and our own elements.

use weaver_testkit::fuzz::Target;

use super::coloured;

fn show(input: &[u8]) -> String {
    let line = String::from_utf8_lossy(input);
    let html = coloured(&line).into_string();
    assert!(!html.contains('\u{1b}'), "an escape remains: {html:?}");
    // Every element is a closed span, and there is no other `<`.
    let (opened, closed) = (html.matches("<span ").count(), html.matches("</span>").count());
    assert_eq!(opened, closed, "{html:?}");
    assert_eq!(html.matches('<').count(), opened + closed, "markup of the line itself: {html:?}");
    let shape: String = html.split('<').skip(1).filter_map(|tag| tag.split('>').next()).collect();
    format!("{} {shape}", line.contains('\u{1b}'))
}

const WORDS: &[&str] = &[
    "\u{1b}[",
    "\u{1b}]8;;",
    "\u{7}",
    "\u{1b}\\",
    "m",
    "38;5;",
    "48;2;",
    ";",
    ":",
    "0",
    "99999",
    "<script>",
    "&",
    "\"",
    "\u{202e}",
    "\u{9b}",
    "ä",
];

#[test]
fn fuzzed_lines_become_text_and_closed_spans() {
    Target::new("ansi", env!("CARGO_MANIFEST_DIR")).words(WORDS).run(show);
}
