//! How long files and functions are, in Rust and in SQL.

use super::ratchet::Measured;
use super::{functions, sql_functions};

/// A file longer than this is looked at again before it grows.
const FILE_LINES: usize = 400;
/// A file longer than this is split, without exception.
const FILE_LINES_MAX: usize = 800;
/// A function longer than this does not fit on a screen.
const FUNCTION_LINES: usize = 70;

pub(crate) fn measure(files: &[(String, String)]) -> Vec<Measured> {
    let mut measured = Vec::new();
    for (path, text) in files {
        measured.push(Measured {
            name: path.clone(),
            lines: text.lines().count(),
            limit: FILE_LINES,
            limit_max: Some(FILE_LINES_MAX),
        });
        let found = if path.ends_with(".sql") { sql_functions::find(text) } else { functions::find(text) };
        for function in found {
            let name = format!("{path} fn {}", function.name);
            measured.push(Measured { name, lines: function.lines, limit: FUNCTION_LINES, limit_max: None });
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchet;

    fn problems(text: &str) -> usize {
        problems_in("a.rs", text)
    }

    fn problems_in(path: &str, text: &str) -> usize {
        ratchet::check(&measure(&[(path.into(), text.into())]), "").len()
    }

    #[test]
    fn a_file_may_have_400_lines_and_not_401() {
        assert_eq!(problems(&"x\n".repeat(400)), 0);
        assert_eq!(problems(&"x\n".repeat(401)), 1);
    }

    #[test]
    fn a_function_may_have_70_lines_and_not_71() {
        let function = |body_lines: usize| format!("fn f() {{\n{}}}\n", "    x();\n".repeat(body_lines));
        assert_eq!(problems(&function(68)), 0);
        assert_eq!(problems(&function(69)), 1);
    }

    #[test]
    fn sql_is_held_to_the_same_lengths() {
        let function = |lines: usize| {
            format!("CREATE FUNCTION f() AS $$\n{}$$ LANGUAGE sql;\n", "    x;\n".repeat(lines - 2))
        };
        assert_eq!(problems_in("a.sql", &function(70)), 0);
        assert_eq!(problems_in("a.sql", &function(71)), 1);
        assert_eq!(problems_in("a.sql", &"x;\n".repeat(401)), 1);
    }
}
