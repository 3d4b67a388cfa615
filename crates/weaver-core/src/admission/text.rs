//! The rules as conditions, for stores that evaluate them in the database.

use std::fmt::Write as _;

/// A rule as it is written in [`crate::admission`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) facts: &'static [&'static str],
    /// None or one: the fact without which the rule does not hold.
    pub(super) given: &'static [&'static str],
    /// The tokens of the condition, as Rust writes them.
    pub(super) condition: &'static str,
}

/// The language of a condition. Comparisons, `AND`, `OR` and `NOT` are the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// A Boolean expression of PostgreSQL.
    Sql,
    /// A condition expression of DynamoDB.
    DynamoDb,
}

impl Dialect {
    fn is_present(self, argument: &str) -> String {
        match self {
            Self::Sql => format!("{argument} IS NOT NULL"),
            Self::DynamoDb => format!("attribute_exists({argument})"),
        }
    }
}

/// A rule as a condition over these arguments, which are expressions of the dialect in the order of the
/// function's parameters. `None` if there is no such rule, or the number of arguments does not match.
///
/// An argument for a `bool` must be a condition, and never NULL; only a fact that is an `Option` may be.
pub fn condition(rule: &str, arguments: &[&str], dialect: Dialect) -> Option<String> {
    let rule = super::RULES.iter().find(|known| known.name == rule)?;
    let names: Vec<&str> = rule.facts.iter().chain(rule.given).copied().collect();
    if names.len() != arguments.len() {
        return None;
    }
    let tokens = tokens(rule.condition);
    let value = |name: &str| names.iter().position(|known| *known == name).map(|at| arguments[at]);
    let translated = translate(&tokens, &value, dialect)?;
    Some(match rule.given {
        [given] => format!("({} AND {})", dialect.is_present(value(given)?), unit(&translated)),
        _ => unit(&translated),
    })
}

fn translate<'a>(
    tokens: &[&str],
    value: &impl Fn(&str) -> Option<&'a str>,
    dialect: Dialect,
) -> Option<String> {
    let mut out = String::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let is_name = token.starts_with(|first: char| first.is_ascii_lowercase());
        if is_name && tokens.get(at) == Some(&"(") {
            let length = tokens[at..].iter().position(|token| *token == ")")?;
            let inner: Option<Vec<&str>> = tokens[at + 1..at + length]
                .iter()
                .filter(|token| **token != ",")
                .map(|name| value(name))
                .collect();
            out.push_str(&condition(token, &inner?, dialect)?);
            at += length + 1;
            continue;
        }
        let written = match *token {
            "==" => " = ",
            "!=" => " <> ",
            "&&" => " AND ",
            "||" => " OR ",
            "!" => "NOT ",
            "(" | ")" => token,
            "<" | "<=" | ">" | ">=" => {
                let _ = write!(out, " {token} "); // a String takes anything
                continue;
            }
            name if is_name => {
                out.push_str(&unit(value(name)?));
                continue;
            }
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => number,
            _ => return None,
        };
        out.push_str(written);
    }
    Some(out)
}

/// An expression in parentheses, unless it is a name or has them: DynamoDB refuses a second pair.
fn unit(expression: &str) -> String {
    let is_plain = expression.chars().all(|each| each.is_alphanumeric() || "._:#[]".contains(each));
    if is_plain || is_in_parentheses(expression) { expression.to_owned() } else { format!("({expression})") }
}

fn is_in_parentheses(expression: &str) -> bool {
    let mut depth = 0_usize;
    let closes_at = expression.bytes().position(|byte| {
        depth = match byte {
            b'(' => depth + 1,
            b')' => depth.saturating_sub(1),
            _ => depth,
        };
        depth == 0
    });
    closes_at == Some(expression.len() - 1) && expression.starts_with('(')
}

fn tokens(text: &'static str) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |each: char| each.is_alphanumeric() || each == '_';
        let length = if is_word(first) {
            rest.find(|each| !is_word(each)).unwrap_or(rest.len())
        } else {
            let two = ["==", "!=", "<=", ">=", "&&", "||"].iter().any(|pair| rest.starts_with(pair));
            if two { 2 } else { first.len_utf8() }
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(rule: &str, arguments: &[&str]) -> String {
        condition(rule, arguments, Dialect::Sql).expect("the rule can be written as SQL")
    }

    #[test]
    fn a_comparison_stays_one_that_an_index_can_use() {
        assert_eq!(sql("is_due", &["r.ready_at", "v_now"]), "(r.ready_at <= v_now)");
    }

    #[test]
    fn a_rule_without_its_optional_fact_does_not_hold() {
        assert_eq!(
            sql("is_expired", &["r.executions = 0", "v_now", "r.expires_at"]),
            "(r.expires_at IS NOT NULL AND ((r.executions = 0) AND r.expires_at <= v_now))"
        );
        assert_eq!(
            condition("is_full", &["occupied", "max_running"], Dialect::DynamoDb).as_deref(),
            Some("(attribute_exists(max_running) AND (occupied >= max_running))")
        );
    }

    #[test]
    fn a_rule_made_of_rules_becomes_one_condition() {
        assert_eq!(
            sql("is_open", &["s.paused", "4", "s.max_running"]),
            "(NOT s.paused AND NOT (s.max_running IS NOT NULL AND (4 >= s.max_running)))"
        );
    }

    #[test]
    fn no_expression_has_two_pairs_of_parentheses() {
        let written = condition("is_open", &["paused = :true", "occupied", "max_running"], Dialect::DynamoDb);
        let expected =
            "(NOT (paused = :true) AND NOT (attribute_exists(max_running) AND (occupied >= max_running)))";
        assert_eq!(written.as_deref(), Some(expected));
        assert!(is_in_parentheses("(a) AND (b)") != is_in_parentheses("(a AND (b))"));
    }

    #[test]
    fn every_rule_can_be_written_in_every_dialect() {
        for rule in super::super::RULES {
            let arguments = vec!["x"; rule.facts.len() + rule.given.len()];
            for dialect in [Dialect::Sql, Dialect::DynamoDb] {
                assert!(condition(rule.name, &arguments, dialect).is_some(), "{}", rule.name);
            }
            assert_eq!(condition(rule.name, &arguments[1..], Dialect::Sql), None);
        }
        assert_eq!(condition("is_no_rule", &[], Dialect::Sql), None);
    }
}
