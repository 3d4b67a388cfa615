//! Words that must not be in the repository: unfinished code, skipped tests, paths of one machine.

use super::Problem;

/// Looked for in Rust files. Written in two halves, or this file would be the first to be reported.
const UNFINISHED: &[(&str, &str)] = &[
    (concat!("todo", "!("), "write the code, or leave the feature out"),
    (concat!("unimplemented", "!("), "write the code, or return an error that says what is missing"),
    (concat!("dbg", "!("), "remove it"),
    (concat!("#[", "ignore"), "make the test run, or delete it: a test that does not run protects nothing"),
];

/// Looked for in every text file.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// On the same line, says that the path is something else, such as the route of a request.
const NOT_A_MACHINE_PATH: &str = "tidy: not a machine path";

/// The pipeline's own scripts may have to name the machine they run on.
const PIPELINE: &str = ".ci/";

pub(crate) fn check(files: &[(String, String)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in files {
        for (index, line) in text.lines().enumerate() {
            let place = format!("{path}:{}", index + 1);
            if path.ends_with(".rs") {
                for (word, next) in UNFINISHED.iter().filter(|(word, _)| occurs(line, word)) {
                    problems.push(Problem::new(&place, format!("`{word}` is not for committed code"), *next));
                }
            }
            if path.starts_with(PIPELINE) || line.contains(NOT_A_MACHINE_PATH) {
                continue;
            }
            for word in MACHINE_PATHS.iter().filter(|word| occurs(line, word)) {
                problems.push(Problem::new(
                    &place,
                    format!("`{word}` is a path of one machine"),
                    format!("use a relative path; if it is none, write `{NOT_A_MACHINE_PATH}` on the line"),
                ));
            }
        }
    }
    problems
}

/// Whether `word` stands on its own: inside a longer name or path, such as a URL's, it is something else.
fn occurs(line: &str, word: &str) -> bool {
    let continues =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')' | '>' | '~' | '*');
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: impl Into<String>) -> usize {
        check(&[(path.into(), text.into())]).len()
    }

    #[test]
    fn each_unfinished_word_fails_in_rust_and_only_there() {
        for (word, _) in UNFINISHED {
            assert_eq!(problems("a.rs", format!("    {word})")), 1, "{word}");
            assert_eq!(problems("a.md", format!("    {word})")), 0, "{word}");
        }
        assert_eq!(problems("a.rs", format!("my_{}", UNFINISHED[0].0)), 0);
    }

    #[test]
    fn each_machine_path_fails_in_any_file_but_the_pipeline() {
        for path in MACHINE_PATHS {
            assert_eq!(problems("README.md", format!("see {path}me/x")), 1, "{path}");
            assert_eq!(problems("a.rs", format!("\"file://{path}me\"")), 1, "{path}");
            assert_eq!(problems(".ci/run", format!("cd {path}me")), 0, "{path}");
        }
    }

    #[test]
    fn a_longer_path_or_a_marked_line_passes() {
        for path in MACHINE_PATHS {
            assert_eq!(problems("a.md", format!("https://example.org{path}x docs{path}x")), 0, "{path}");
            assert_eq!(problems("a.rs", format!("route(\"{path}x\") // {NOT_A_MACHINE_PATH}: a route")), 0);
        }
    }
}
