//! The text of a token: `wvr_`, 64 bits that name it, 256 bits that prove it.
//!
//! The parts are in hexadecimal: no sign in it needs quoting in a shell, a header or a file.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every token begins with, so that people and scanners for lost secrets know one when they see it.
pub const TOKEN_PREFIX: &str = "wvr_";

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
const TEXT_LEN: usize = TOKEN_PREFIX.len() + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES;

/// The part of a token that names it. It is no secret: lists, the audit journal and messages show it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TokenId(Arc<str>);

impl TokenId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for TokenId {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        if text.len() == 2 * ID_BYTES && is_hex(text) { Ok(Self(text.into())) } else { Err(NotAToken) }
    }
}

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Text that cannot be a token. It does not repeat the text: that may be somebody's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no token of Weaver: they look like wvr_<16 hexadecimal digits>_<64 hexadecimal digits>")]
pub struct NotAToken;

/// A whole token: the secret. It has no `Display`, and its `Debug` shows the id alone;
/// [`expose`](TokenText::expose) is the one way to the text, so that reading the uses of that name shows
/// where secrets go.
#[derive(Clone)]
pub struct TokenText(Arc<str>);

impl TokenText {
    /// A new token, from the system's randomness.
    // Not from a source that is passed in: a token that a seed can bring back is none.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        let (id, secret) = bytes.split_at(ID_BYTES);
        Self(format!("{TOKEN_PREFIX}{}_{}", to_hex(id), to_hex(secret)).into())
    }

    /// Accepts exactly the form that is given out, so that a token has one spelling.
    pub fn parse(text: &str) -> Result<Self, NotAToken> {
        let (id, secret) =
            text.strip_prefix(TOKEN_PREFIX).and_then(|rest| rest.split_once('_')).ok_or(NotAToken)?;
        let is_whole = text.len() == TEXT_LEN && id.len() == 2 * ID_BYTES;
        if is_whole && is_hex(id) && is_hex(secret) { Ok(Self(text.into())) } else { Err(NotAToken) }
    }

    /// The part that names it.
    pub fn id(&self) -> TokenId {
        let start = TOKEN_PREFIX.len();
        TokenId(self.0[start..start + 2 * ID_BYTES].into())
    }

    /// The secret itself: for the person it was made for, and for the file it is kept in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What the store keeps.
    pub fn hash(&self) -> TokenHash {
        // Of the whole text: a hash copied into the record of another id matches nothing. A slow hash would
        // add nothing, because nobody can try 2^256 secrets, and everybody would pay for it with every
        // request.
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TokenText({TOKEN_PREFIX}{}_…)", self.id())
    }
}

/// The SHA-256 of a token. It is deliberately not `PartialEq`: [`matches`](TokenHash::matches) takes the same
/// time whatever differs, and there is no other way to compare.
///
/// ```compile_fail
/// use weaver_server::security::TokenText;
/// let token = TokenText::parse("…").unwrap();
/// assert!(token.hash() == token.hash());
/// ```
#[derive(Clone)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Whether both are of the same token, in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Matches no token anybody can find; stands in where there is no record, so that both cases do the same
    /// work.
    pub(crate) const fn of_nothing() -> Self {
        Self([0; 32])
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TokenHash(…)")
    }
}

impl Serialize for TokenHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        if text.len() != 64 || !is_hex(&text) {
            return Err(serde::de::Error::custom("a token's hash has 64 hexadecimal digits"));
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(Self(bytes))
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn digit(byte: u8) -> u8 {
    if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 }
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
