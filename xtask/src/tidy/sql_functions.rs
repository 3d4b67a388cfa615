//! Where SQL functions begin and end: from `CREATE FUNCTION` to the end of the statement.

use super::functions::Function;

/// Every `CREATE FUNCTION` and `CREATE PROCEDURE`, with its lines.
pub(crate) fn find(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let found = lines.iter().enumerate().filter_map(|(first, line)| {
        let name = function_name(line)?;
        Some(Function { name: name.to_owned(), lines: length(&lines[first..]) })
    });
    found.collect()
}

fn function_name(line: &str) -> Option<&str> {
    let rest = strip_word(line, "CREATE")?;
    let rest = strip_word(rest, "OR").and_then(|rest| strip_word(rest, "REPLACE")).unwrap_or(rest);
    let rest = strip_word(rest, "FUNCTION").or_else(|| strip_word(rest, "PROCEDURE"))?;
    rest.split(|c: char| c == '(' || c.is_whitespace()).next().filter(|name| !name.is_empty())
}

/// What follows a keyword, in whatever case it is written.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = text.trim_start().split_once(' ')?;
    first.eq_ignore_ascii_case(word).then(|| rest.trim_start())
}

/// Lines until the `;` that ends the statement; those between dollar quotes belong to the body.
fn length(lines: &[&str]) -> usize {
    let mut quote: Option<&str> = None;
    for (index, line) in lines.iter().enumerate() {
        let mut rest = line.split("--").next().unwrap_or_default();
        while let Some((at, tag)) = next_quote(rest, quote) {
            quote = if quote.is_some() { None } else { Some(tag) };
            rest = &rest[at + tag.len()..];
        }
        if quote.is_none() && rest.trim_end().ends_with(';') {
            return index + 1;
        }
    }
    lines.len()
}

/// The next `$tag$`, and where it is: any, or the one that closes what is open.
fn next_quote<'a>(text: &'a str, open: Option<&str>) -> Option<(usize, &'a str)> {
    if let Some(open) = open {
        return text.find(open).map(|at| (at, &text[at..at + open.len()]));
    }
    let starts = text.match_indices('$').map(|(at, _)| at);
    starts.into_iter().find_map(|at| {
        let end = at + 1 + text[at + 1..].find(|c: char| !c.is_alphanumeric() && c != '_')?;
        (text[end..].starts_with('$') && !text[at + 1..].starts_with(|c: char| c.is_ascii_digit()))
            .then(|| (at, &text[at..=end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize)> {
        find(text).into_iter().map(|function| (function.name, function.lines)).collect()
    }

    #[test]
    fn a_body_between_dollar_quotes_counts_with_its_semicolons() {
        let text =
            "CREATE FUNCTION weaver.f(a int)\n    RETURNS int AS $$\nBEGIN\n    x;\nEND $$;\nSELECT;\n";
        assert_eq!(lengths(text), [("weaver.f".into(), 5)]);
    }

    #[test]
    fn other_quotes_inside_a_tagged_body_do_not_end_it() {
        let text = "create or replace function f() returns int as $b$\n  x := $$a$$;\n$b$\nlanguage sql;\n";
        assert_eq!(lengths(text), [("f".into(), 4)]);
    }

    #[test]
    fn a_body_in_plain_quotes_and_procedures_count() {
        let text = "CREATE FUNCTION f() RETURNS int AS 'SELECT 1';\nCREATE PROCEDURE p() AS $$\nx\n$$;\n";
        assert_eq!(lengths(text), [("f".into(), 1), ("p".into(), 3)]);
    }

    #[test]
    fn tables_and_comments_are_not_functions() {
        assert_eq!(lengths("-- CREATE FUNCTION f();\nCREATE TABLE t (a int);\n"), []);
    }
}
