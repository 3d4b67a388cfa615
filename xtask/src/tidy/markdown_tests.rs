use super::*;

fn targets(text: &str) -> Vec<String> {
    links(text).into_iter().map(|(_, target)| target).collect()
}

#[test]
fn links_images_titles_brackets_and_references_are_found() {
    let text = "[a](a.md#x) ![b](b.png \"title\") [c](<c d.md>) [e](f(1).md)\n\n[ref]: g.md\n";
    assert_eq!(targets(text), ["a.md#x", "b.png", "c d.md", "f(1).md", "g.md"]);
}

#[test]
fn a_link_whose_text_is_code_is_a_link() {
    assert_eq!(targets("[`code`](a.md)"), ["a.md"]);
}

#[test]
fn links_in_code_are_not_links() {
    assert_eq!(targets("`[a](a.md)`\n```\n[b](b.md)\n~~~\n```\n[c](c.md)"), ["c.md"]);
}

#[test]
fn headings_become_anchors_as_renderers_write_them() {
    let text = "# What Weaver is\n## `weaver serve`: one binary\n## [A link](x.md) here\n#not a heading\n";
    assert_eq!(anchors(text), ["what-weaver-is", "weaver-serve-one-binary", "a-link-here"]);
}

#[test]
fn repeated_headings_are_numbered_and_explicit_ids_count() {
    assert_eq!(anchors("# A\n# A\n<a id=\"b\"></a>\n```\n# C\n```\n"), ["a", "a-1", "b"]);
}

#[test]
fn rows_give_their_last_cell_and_headers_none() {
    let text = "| a | b |\n|---|:--|\n| 1 | `x` |\n| 2 | `y\\|z` |\n\ntext | no\n| loose |\n";
    assert_eq!(last_cells(text), [(3, "`x`".into()), (4, "`y|z`".into())]);
}

#[test]
fn code_spans_are_the_names_in_backticks() {
    assert_eq!(code_spans("`a::b`, and `c`; d"), ["a::b", "c"]);
}
