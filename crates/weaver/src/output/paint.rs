//! Colors.

/// The meaning of a color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    Strong,
    Faint,
}

/// Whether to use color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// `choice` is the setting `color`; on `auto`, NO_COLOR (<https://no-color.org>) and pipes mean none.
    pub(crate) fn choose(choice: &str, is_terminal: bool) -> Self {
        let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(match choice {
            "always" => true,
            "never" => false,
            _ => is_terminal && !wants_none,
        })
    }

    #[cfg(test)]
    pub(crate) const NONE: Self = Self(false);

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    /// Our own escape code that a text begins with, if color is on.
    pub(crate) fn code_at(self, text: &str) -> Option<&str> {
        let codes = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];
        let code = codes.into_iter().find(|code| self.0 && text.starts_with(code))?;
        text.get(..code.len())
    }

    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Warning => "33",
            Tone::Bad => "31",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
