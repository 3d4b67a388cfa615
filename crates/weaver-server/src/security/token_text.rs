//! The text of a bearer token: `wvr_`, a 64-bit id, a 256-bit secret.
//!
//! Both parts are in hex: no character needs quoting in a shell, a header or a file.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The prefix of every token, so that people and secret scanners recognize one.
pub const TOKEN_PREFIX: &str = "wvr_";

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
const TEXT_LEN: usize = TOKEN_PREFIX.len() + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES;

/// The id of a token: 16 hex digits. Not a secret: lists, the audit journal and messages show it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TokenId(Arc<str>);

impl TokenId {
    /// 16 lower-case hex digits.
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

/// Text that is not a token. The message does not contain the text, which may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a Weaver token: expected wvr_<16 hexadecimal digits>_<64 hexadecimal digits>")]
pub struct NotAToken;

/// A token with its secret. It has no `Display`, and its `Debug` shows the id only;
/// [`expose`](TokenText::expose) is the only way to the text, so that its callers show where secrets go.
#[derive(Clone)]
pub struct TokenText(Arc<str>);

impl TokenText {
    /// A new token, from the system's randomness.
    // Not from an injected source: a token that a seed can reproduce is not a secret.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        let (id, secret) = bytes.split_at(ID_BYTES);
        Self(format!("{TOKEN_PREFIX}{}_{}", to_hex(id), to_hex(secret)).into())
    }

    /// Accepts exactly the form that [`create`](super::Tokens::create) returns, so that a token has one
    /// spelling.
    pub fn parse(text: &str) -> Result<Self, NotAToken> {
        let (id, secret) =
            text.strip_prefix(TOKEN_PREFIX).and_then(|rest| rest.split_once('_')).ok_or(NotAToken)?;
        let is_whole = text.len() == TEXT_LEN && id.len() == 2 * ID_BYTES;
        if is_whole && is_hex(id) && is_hex(secret) { Ok(Self(text.into())) } else { Err(NotAToken) }
    }

    /// The part that is not secret.
    pub fn id(&self) -> TokenId {
        let start = TOKEN_PREFIX.len();
        TokenId(self.0[start..start + 2 * ID_BYTES].into())
    }

    /// The token with its secret: for the response that creates it, and the file that keeps it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The SHA-256 that the store keeps.
    pub fn hash(&self) -> TokenHash {
        // Of the whole text: a hash copied into the record of another id matches nothing. A slow hash would
        // cost every request and add nothing: 2^256 secrets cannot be tried.
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
    /// Compares in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Matches no known token; used where there is no record, so that both cases take the same time.
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
