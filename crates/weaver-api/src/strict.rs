//! What JSON must be besides valid, so that every client reads it alike: not nested too deeply (parsers
//! recurse and crash), no duplicate key in an object (parsers take the first, the last, or both), no lone
//! surrogate in a string.
//!
//! Only valid JSON is judged: at the first invalid byte the scan ends, and the parser reports the error.

use std::borrow::Cow;
use std::collections::HashSet;

/// The deepest nesting of arrays and objects in a body, a payload or a result.
pub const JSON_DEPTH_MAX: usize = 128;
/// Up to this many keys of an object are compared linearly; more go into a hash set.
const FEW_KEYS: usize = 8;
/// Longer paths are cut in error messages.
const PATH_MAX_BYTES: usize = 256;

/// Valid JSON that clients read differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct NotStrict {
    /// Where, like `tasks[1].payload.address`; empty for the whole document.
    pub path: String,
    /// What is wrong at that path.
    pub problem: StrictProblem,
}

/// What is wrong with valid JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictProblem {
    /// More than [`JSON_DEPTH_MAX`] levels of nesting.
    #[error("it is nested more than {JSON_DEPTH_MAX} levels deep: store it elsewhere and send a reference")]
    TooDeep,
    /// A key that occurs twice in one object.
    #[error("the key `{0}` occurs twice in one object: send it once")]
    DuplicateKey(String),
    /// Half of a UTF-16 surrogate pair.
    #[error(
        "a string has a lone surrogate (`\\ud800` to `\\udfff`): send both halves of the pair, or U+FFFD"
    )]
    LoneSurrogate,
}

/// Checks JSON in one pass, without building a value tree.
pub fn check_strict(text: &[u8]) -> Result<(), NotStrict> {
    let mut stack: Vec<Level<'_>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' if stack.len() == JSON_DEPTH_MAX => {
                return Err(not_strict(&stack, StrictProblem::TooDeep));
            }
            b'{' => {
                stack.push(Level::Object {
                    keys: Keys::default(),
                    key: Cow::Borrowed(""),
                    expects_key: true,
                });
            }
            b'[' => stack.push(Level::Array { index: 0 }),
            b'}' | b']' => drop(stack.pop()),
            b',' | b':' => stack.last_mut().into_iter().for_each(|level| level.passes(*byte)),
            b'"' => {
                let Some(end) = end_of_string(&text[at..]) else { return Ok(()) };
                let content = &text[at..at + end];
                at += end + 1;
                let Some(read) = read(content) else {
                    return Err(not_strict(&stack, StrictProblem::LoneSurrogate));
                };
                if let Some(twice) = stack.last_mut().and_then(|level| level.takes(read)) {
                    return Err(not_strict(&stack, StrictProblem::DuplicateKey(twice)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

enum Level<'a> {
    Array { index: usize },
    Object { keys: Keys<'a>, key: Cow<'a, str>, expects_key: bool },
}

impl<'a> Level<'a> {
    fn passes(&mut self, byte: u8) {
        match self {
            Self::Array { index } => *index += 1,
            Self::Object { expects_key, .. } => *expects_key = byte == b',',
        }
    }

    /// Takes a string, which may be a key; returns it if it is a duplicate key.
    fn takes(&mut self, text: Cow<'a, str>) -> Option<String> {
        let Self::Object { keys, key, expects_key: true } = self else { return None };
        key.clone_from(&text);
        if keys.insert(text) { None } else { Some(key.clone().into_owned()) }
    }
}

#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    fn insert(&mut self, key: Cow<'a, str>) -> bool {
        if self.few.contains(&key) {
            return false;
        }
        if self.few.len() < FEW_KEYS {
            self.few.push(key);
            return true;
        }
        self.many.insert(key)
    }
}

fn end_of_string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A string without its escapes; `None` if it has a lone surrogate. Invalid UTF-8 is left to the parser.
fn read(content: &[u8]) -> Option<Cow<'_, str>> {
    let Ok(text) = std::str::from_utf8(content) else { return Some(Cow::Borrowed("")) };
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    // The quotes were stripped by the caller; the parser needs them.
    match serde_json::from_str::<String>(&format!("\"{text}\"")) {
        Ok(read) => Some(Cow::Owned(read)),
        Err(_) if has_lone_surrogate(text) => None,
        Err(_) => Some(Cow::Borrowed(text)),
    }
}

fn has_lone_surrogate(text: &str) -> bool {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while at < text.len() {
        match (text.as_bytes()[at], unit(at)) {
            (b'\\', Some(0xd800..=0xdbff)) => match unit(at + 6) {
                Some(0xdc00..=0xdfff) => at += 12,
                _ => return true,
            },
            (b'\\', Some(0xdc00..=0xdfff)) => return true,
            (b'\\', _) => at += 2,
            _ => at += 1,
        }
    }
    false
}

fn not_strict(stack: &[Level<'_>], problem: StrictProblem) -> NotStrict {
    let mut path = String::new();
    for level in stack {
        match level {
            Level::Array { index } => path.push_str(&format!("[{index}]")),
            Level::Object { key, .. } if path.is_empty() => path.push_str(key),
            Level::Object { key, .. } => path.push_str(&format!(".{key}")),
        }
        if path.len() > PATH_MAX_BYTES {
            path.truncate(path.floor_char_boundary(PATH_MAX_BYTES));
            path.push('…');
            break;
        }
    }
    NotStrict { path, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, path: &str) -> StrictProblem {
        let found = check_strict(text.as_bytes()).expect_err(text);
        assert_eq!(found.path, path, "{text}");
        found.problem
    }

    #[test]
    fn nesting_is_counted_through_arrays_and_objects() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(check_strict(deep(JSON_DEPTH_MAX).as_bytes()), Ok(()));
        for levels in [JSON_DEPTH_MAX + 1, 20_000] {
            let found = check_strict(deep(levels).as_bytes()).expect_err("too deep");
            assert_eq!(found.problem, StrictProblem::TooDeep);
            assert!(found.path.starts_with("[0][0]") && found.path.len() < 300, "{}", found.path);
        }
        let wide = format!("[{}1]", "[[]],".repeat(10_000));
        assert_eq!(check_strict(wide.as_bytes()), Ok(()));
    }

    #[test]
    fn a_key_occurs_once_per_object_however_it_is_escaped() {
        for (text, path, key) in [
            (r#"{"a":1,"a":2}"#, "a", "a"),
            (r#"{"tasks":[{"x":0},{"payload":{"a":{},"\u0061":1}}]}"#, "tasks[1].payload.a", "a"),
            (r#"{"":1,"":2}"#, "", ""),
        ] {
            assert_eq!(refused(text, path), StrictProblem::DuplicateKey(key.to_owned()));
        }
        let many: Vec<_> = (0..100).map(|key| format!("\"{key}\":0")).collect();
        assert_eq!(check_strict(format!("{{{}}}", many.join(",")).as_bytes()), Ok(()));
        let twice = format!("{{{},\"99\":1}}", many.join(","));
        assert_eq!(refused(&twice, "99"), StrictProblem::DuplicateKey("99".to_owned()));
        for fine in [r#"{"a":{"a":"a"},"b":["a","a"]}"#, r#"["a","a"]"#, r#"{"a":"a,\"a\":1"}"#, "7", "\"a\""]
        {
            assert_eq!(check_strict(fine.as_bytes()), Ok(()), "{fine}");
        }
    }

    #[test]
    fn a_lone_surrogate_is_refused_with_its_path() {
        for (text, path) in [
            (r#"{"a":"\ud800"}"#, "a"),
            (r#"{"a":["x","\udc00x"]}"#, "a[1]"),
            (r#"{"a":"\ud800\u0041"}"#, "a"),
            (r#"{"a":"\\\ud83d"}"#, "a"),
            (r#""\uD83D\uD83D""#, ""),
        ] {
            assert_eq!(refused(text, path), StrictProblem::LoneSurrogate);
        }
        for fine in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9""#] {
            assert_eq!(check_strict(fine.as_bytes()), Ok(()), "{fine}");
        }
    }

    #[test]
    fn invalid_json_is_left_to_the_parser() {
        for text in ["", "{", "\"", "\"\\", "]]]]", "{{{", "[\"\\u\"]", "}{", ",", ":", "\"\\ud8\""] {
            assert_eq!(check_strict(text.as_bytes()), Ok(()), "{text}");
        }
        assert_eq!(check_strict(b"\"\xff\""), Ok(()));
    }
}
