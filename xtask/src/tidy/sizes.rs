//! How long Rust files and functions are.

use super::functions;
use super::ratchet::Measured;

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
        for function in functions::find(text) {
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
        ratchet::check(&measure(&[("a.rs".into(), text.into())]), "").len()
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
}
