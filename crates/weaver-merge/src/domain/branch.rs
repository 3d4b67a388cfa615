//! Names of branches.

/// Why a text is not the exact name of a branch; `None` if it is one. The rules are those of `git
/// check-ref-format --branch`: anything else could be an expression such as `main~1` or `main@{yesterday}`,
/// which names a commit and not a branch that can be watched and moved.
pub fn branch_name_problem(name: &str) -> Option<String> {
    let forbidden = |letter: char| {
        letter.is_ascii_control() || matches!(letter, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\')
    };
    let component = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    if let Some(letter) = name.chars().find(|letter| forbidden(*letter)) {
        return Some(format!("a branch name has no {letter:?}"));
    }
    if let Some(part) = ["..", "@{"].into_iter().find(|part| name.contains(part)) {
        return Some(format!("a branch name has no `{part}`"));
    }
    if matches!(name, "" | "@" | "HEAD") || name.starts_with('-') || name.ends_with('.') {
        return Some("it is not the name of a branch".to_owned());
    }
    name.split('/')
        .any(component)
        .then(|| "its parts between `/` are not empty, begin with no `.` and end with no `.lock`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_not_the_name_of_a_branch() {
        for name in
            ["main~0", "main^", "main^{}", "main@{1}", "@", "HEAD", "a:b", "a..b", "", "-x", "a b", "a\nb"]
        {
            assert!(branch_name_problem(name).is_some(), "{name}");
        }
        for name in ["/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "a*", "a?", "a[b", "a\\b"]
        {
            assert!(branch_name_problem(name).is_some(), "{name}");
        }
        for name in ["main", "feature/x-1", "42", "ümlaut", "a@b", "{x}", "refs", "a.b", "#7"] {
            assert_eq!(branch_name_problem(name), None, "{name}");
        }
    }
}
