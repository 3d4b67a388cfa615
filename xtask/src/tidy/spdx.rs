//! Just enough of SPDX licence expressions: `OR`, `AND`, `WITH`, parentheses, and `/`, which old manifests
//! write for `OR`.

/// Whether the expression can be satisfied using only licences that `allowed` accepts. An exception is part
/// of the licence's name: `Apache-2.0 WITH LLVM-exception`.
pub(crate) fn satisfiable(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut parser = Parser { tokens: tokens(expression), at: 0, allowed };
    let answer = parser.any()?;
    match parser.peek() {
        None => Ok(answer),
        Some(rest) => Err(format!("unexpected `{rest}`")),
    }
}

fn tokens(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Parser<'a> {
    tokens: Vec<String>,
    at: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    /// `AND` binds tighter than `OR`. Both sides are always parsed: `|=`, not `||`.
    fn any(&mut self) -> Result<bool, String> {
        let mut answer = self.all()?;
        while self.take("OR") {
            answer |= self.all()?;
        }
        Ok(answer)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut answer = self.one()?;
        while self.take("AND") {
            answer &= self.one()?;
        }
        Ok(answer)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let answer = self.any()?;
            return if self.take(")") { Ok(answer) } else { Err("a `)` is missing".into()) };
        }
        let mut name = self.identifier()?;
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.identifier()?);
        }
        Ok((self.allowed)(&name))
    }

    fn identifier(&mut self) -> Result<String, String> {
        match self.peek() {
            None => Err("it ends where a licence should follow".into()),
            Some(word @ ("(" | ")" | "OR" | "AND" | "WITH")) => Err(format!("unexpected `{word}`")),
            Some(word) => {
                let word = word.to_owned();
                self.at += 1;
                Ok(word)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mit_or_isc(expression: &str) -> Result<bool, String> {
        satisfiable(expression, &|name| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&name))
    }

    #[test]
    fn one_allowed_side_of_or_is_enough() {
        assert_eq!(mit_or_isc("GPL-3.0 OR MIT"), Ok(true));
        assert_eq!(mit_or_isc("GPL-3.0/MIT"), Ok(true));
        assert_eq!(mit_or_isc("GPL-3.0 OR MPL-2.0"), Ok(false));
    }

    #[test]
    fn both_sides_of_and_are_needed() {
        assert_eq!(mit_or_isc("MIT AND ISC"), Ok(true));
        assert_eq!(mit_or_isc("MIT AND GPL-3.0"), Ok(false));
    }

    #[test]
    fn and_binds_tighter_than_or_and_parentheses_override_it() {
        assert_eq!(mit_or_isc("MIT OR ISC AND GPL-3.0"), Ok(true));
        assert_eq!(mit_or_isc("(MIT OR ISC) AND GPL-3.0"), Ok(false));
        assert_eq!(mit_or_isc("(GPL-3.0 OR MIT) AND ISC"), Ok(true));
    }

    #[test]
    fn an_exception_belongs_to_the_licence() {
        assert_eq!(mit_or_isc("Apache-2.0 WITH LLVM-exception"), Ok(true));
        assert_eq!(mit_or_isc("Apache-2.0"), Ok(false));
    }

    #[test]
    fn a_malformed_expression_is_an_error() {
        for wrong in ["", "MIT OR", "(MIT", "MIT ISC", "MIT )", "AND MIT"] {
            assert!(mit_or_isc(wrong).is_err(), "{wrong:?}");
        }
    }
}
