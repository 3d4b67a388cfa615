use super::*;

const SECTIONS_TEXT: &str = "## Context\n\n## Decision\n\n## Alternatives rejected\n\n## Consequences\n";

fn page(name: &str, title: &str, status: &str, sections: &str) -> (String, String) {
    (format!("docs/adr/{name}.md"), format!("# {title}\n\nStatus: {status}\n\n{sections}"))
}

fn index(rows: &str) -> (String, String) {
    ("docs/adr/README.md".into(), format!("| number | title | status |\n|---|---|---|\n{rows}"))
}

/// The problems of one page that is listed as it should be.
fn alone(name: &str, title: &str, status: &str, sections: &str) -> Vec<String> {
    let row = "| [0001](0001-a-title.md) | A title | accepted |\n";
    check(&[page(name, title, status, sections), index(row)]).iter().map(ToString::to_string).collect()
}

#[test]
fn a_page_with_number_title_status_and_four_sections_passes() {
    assert_eq!(alone("0001-a-title", "0001: A title", "accepted.", SECTIONS_TEXT), [""; 0]);
    let more = format!("{SECTIONS_TEXT}## Not built\n");
    assert_eq!(alone("0001-a-title", "0001: A title", "accepted (in part)", &more), [""; 0]);
}

#[test]
fn a_file_without_number_or_with_capitals_fails() {
    for name in ["1-a-title", "0001", "0001-A-title", "0001-a--title", "a-title"] {
        let found = alone(name, "0001: A title", "accepted", SECTIONS_TEXT);
        assert!(found[0].contains("NNNN-what-was-decided.md"), "{name}: {found:?}");
    }
}

#[test]
fn a_title_without_the_number_fails() {
    for title in ["A title", "1: A title", "0002: A title", "0001: A title."] {
        assert!(
            alone("0001-a-title", title, "accepted", SECTIONS_TEXT)[0].contains("the first line is"),
            "{title}"
        );
    }
}

#[test]
fn a_page_without_a_known_status_fails() {
    assert!(alone("0001-a-title", "0001: A title", "good", SECTIONS_TEXT)[0].contains("a status"));
}

#[test]
fn missing_sections_and_another_order_fail() {
    for sections in ["## Context\n## Decision\n## Consequences\n", "## Decision\n## Context\n"] {
        assert!(alone("0001-a-title", "0001: A title", "accepted", sections)[0].contains("four sections"));
    }
}

/// The problems of two pages with these statuses, listed with this status of the first.
fn pair(first: &str, second: &str, row_status: &str) -> Vec<String> {
    let rows = format!("| [0001](0001-a.md) | A | {row_status} |\n| [0002](0002-b.md) | B | accepted |\n");
    let first = page("0001-a", "0001: A", first, SECTIONS_TEXT);
    let second = page("0002-b", "0002: B", second, SECTIONS_TEXT);
    check(&[first, second, index(&rows)]).iter().map(ToString::to_string).collect()
}

#[test]
fn what_replaces_and_what_is_replaced_name_each_other() {
    let (by, of) = ("replaced by [0002](0002-b.md)", "accepted; replaces [0001](0001-a.md)");
    assert_eq!(pair(by, of, "replaced by 0002"), [""; 0]);
    assert_eq!(pair("replaced by\n[0002](0002-b.md)", of, "replaced by 0002"), [""; 0]);
    assert!(pair("accepted", of, "accepted")[0].starts_with("docs/adr/0001-a.md: the status of"));
    assert!(pair(by, "accepted", "replaced by 0002")[0].starts_with("docs/adr/0002-b.md: the status of"));
}

#[test]
fn the_row_of_a_changed_decision_names_what_changed_it() {
    let (by, of) = ("accepted; amended by [0002](0002-b.md)", "accepted. Amends [0001](0001-a.md)");
    assert_eq!(pair(by, of, "accepted, amended by 0002"), [""; 0]);
    assert!(pair(by, of, "accepted")[0].contains("does not name 0002"));
    assert!(pair(by, of, "replaced by 0002")[0].contains("another status"));
}

#[test]
fn pages_without_rows_rows_without_pages_other_titles_and_shared_numbers_fail() {
    let one = page("0001-a", "0001: A", "accepted", SECTIONS_TEXT);
    let row = "| [0001](0001-a.md) | A | accepted |\n";
    assert!(check(&[one.clone(), index("")])[0].to_string().contains("0001 has no row"));
    let gone = format!("{row}| [0002](0002-b.md) | B | accepted |\n");
    assert!(check(&[one.clone(), index(&gone)])[0].to_string().contains("leads to no decision"));
    let other = row.replace("| A |", "| Another |");
    assert!(check(&[one.clone(), index(&other)])[0].to_string().contains("another title"));
    let twin = page("0001-b", "0001: B", "accepted", SECTIONS_TEXT);
    let found = check(&[one, twin, index(row)]);
    assert!(found.iter().any(|problem| problem.to_string().contains("is also the number of")));
}
