//! Where functions begin and end, told by indentation: the code is formatted by rustfmt, which the gate
//! checks first, and a parser for Rust would be this crate's largest dependency.

/// A function and its length, from the line with `fn` to its closing brace.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: usize,
}

/// Every function with a body of more than one line.
pub(crate) fn find(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        if let Some(name) = function_name(line.trim_start())
            && let Some(length) = length(&lines[first..])
        {
            found.push(Function { name: name.into(), lines: length });
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    loop {
        if let Some(after) = rest.strip_prefix("fn ") {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return matches!(after.as_bytes()[end], b'(' | b'<').then_some(&after[..end]);
        }
        let (word, after) = rest.split_once(' ')?;
        let qualifier = matches!(word, "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"");
        if !qualifier && !word.starts_with("pub(") && !word.ends_with(')') {
            return None;
        }
        rest = after;
    }
}

/// Lines until the `}` at the indentation of the first line; `None` for a declaration or a one-line body.
fn length(lines: &[&str]) -> Option<usize> {
    let indent = indent(lines.first()?);
    let at_indent = |line: &&str| !line.trim().is_empty() && self::indent(line) == indent;
    let mut signature = lines.iter().enumerate().filter(|(_, line)| at_indent(line));
    let opening = signature.find_map(|(index, line)| match without_comment(line).chars().last() {
        Some('{') => Some(Some(index)),
        Some(';' | '}') => Some(None),
        _ => None,
    })??;
    let closing = lines[opening..].iter().position(|line| at_indent(line) && line.trim() == "}")?;
    Some(opening + closing + 1)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn without_comment(line: &str) -> &str {
    line.split(" //").next().unwrap_or(line).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize)> {
        find(text).into_iter().map(|function| (function.name, function.lines)).collect()
    }

    #[test]
    fn a_function_ends_at_the_brace_of_its_own_indentation() {
        let text = "impl A {\n    pub(crate) async fn f(&self) {\n        if x {\n        }\n    }\n}\n";
        assert_eq!(lengths(text), [("f".into(), 4)]);
    }

    #[test]
    fn a_signature_of_several_lines_counts() {
        let text = "fn f<T>(\n    a: T,\n) -> T\nwhere\n    T: X,\n{ // why\n    a\n}\nfn g() {\n    b\n}\n";
        assert_eq!(lengths(text), [("f".into(), 8), ("g".into(), 3)]);
    }

    #[test]
    fn declarations_and_one_line_bodies_are_not_counted() {
        let text = "trait A {\n    fn f(&self);\n    fn g(\n        a: u8,\n    ) -> u8;\n    fn h() {}\n}\n";
        assert_eq!(lengths(text), []);
    }

    #[test]
    fn words_that_only_look_like_functions_are_not_counted() {
        assert_eq!(lengths("// fn f() {\n// }\nlet fn_like = x(a) {\n}\n"), []);
    }
}
