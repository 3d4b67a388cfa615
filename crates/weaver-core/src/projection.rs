//! The seeds' words for Weaver's states.
//!
//! There is one state machine ([`crate::lifecycle`]). Three of the seeds have their own words for its states,
//! and the stores, APIs and pages that follow a seed write those words.
//!
//! | here | seed | the word describes |
//! |---|---|---|
//! | [`queue_item::Status`] | 000, Queue Store | the task, as a client sees it that waits for its end |
//! | [`task_state::State`] | 001, Rust task queue | the task, as the queue sees it |
//! | [`job_run::State`] | 004, JobRun | the current attempt |
//!
//! A word is computed from the record and never decides anything.
//!
//! Each file has its seed's table of transitions as data, as the seed writes it, and separately the
//! transitions that Weaver adds, each with its reason. A test enumerates every pair of words and checks both
//! against the rules of the lifecycle.

/// Defines an enum whose variants are words: their text in documents, and the way back from it.
macro_rules! words {
    (
        $(#[$doc:meta])*
        $name:ident, $what:literal { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// Every word, in the order of the seed.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word as the seed writes it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::projection::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(crate::projection::UnknownWord {
                        text: text.to_owned(),
                        what: $what,
                        known: &[$($word),+],
                    }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub mod job_run;
pub mod queue_item;
pub mod task_state;

/// A transition between two words that Weaver adds to a seed's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addition<Word> {
    /// The word before the transition.
    pub from: Word,
    /// The word after the transition.
    pub to: Word,
    /// Why Weaver needs it.
    pub reason: &'static str,
}

const fn addition<Word>(from: Word, to: Word, reason: &'static str) -> Addition<Word> {
    Addition { from, to, reason }
}

/// Text that is not one of a seed's words. Words are compared exactly: they are written by programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: it is one of {}", known.join(", "))]
pub struct UnknownWord {
    /// The text that was read.
    pub text: String,
    /// The kind of word expected, such as `status`.
    pub what: &'static str,
    /// Every word of that kind.
    pub known: &'static [&'static str],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_survives_its_text_form_and_its_json() {
        for word in job_run::State::ALL {
            assert_eq!(word.as_str().parse(), Ok(*word));
            let json = serde_json::to_string(word).unwrap();
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<job_run::State>(&json).unwrap(), *word);
        }
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_words_there_are() {
        let refusal = "queued".parse::<queue_item::Status>().unwrap_err().to_string();
        assert_eq!(
            refusal,
            "`queued` is not a status: it is one of QUEUED, RUNNING, COMPLETE, ERROR, CANCELLED"
        );
    }
}
