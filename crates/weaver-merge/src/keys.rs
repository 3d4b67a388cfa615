//! The Ed25519 key a node signs its landings with, and the public keys it trusts.
//!
//! Both are files outside the store: write access to documents must not be enough to sign, or to choose which
//! keys are trusted. They are read on each use, so a rotation takes effect without a restart.
//!
//! ```text
//! merge.key       ed25519-private:<64 hexadecimal digits>      0600
//! merge.key.pub   ed25519:<64 hexadecimal digits>, one line for each key this node ever had, the newest last
//! ```

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

const PRIVATE: &str = "ed25519-private:";
const PUBLIC: &str = "ed25519:";
const SEED_BYTES: usize = 32;

/// Why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("signing key {file} is unusable: {problem}")]
pub struct KeyError {
    /// Path of the key file.
    pub file: String,
    /// What is wrong and what to do.
    pub problem: String,
}

/// An Ed25519 public key, written `ed25519:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; SEED_BYTES]);

impl PublicKey {
    /// Whether `signature` is a valid signature of `bytes` by this key.
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(bytes, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PUBLIC}{}", hex(&self.0))
    }
}

impl FromStr for PublicKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim().strip_prefix(PUBLIC).and_then(unhex);
        let bytes = digits.and_then(|bytes| <[u8; SEED_BYTES]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| {
            format!("invalid public key `{text}`: expected {PUBLIC} and 64 hexadecimal digits")
        })
    }
}

impl TryFrom<String> for PublicKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

/// Reads a file of public keys, one per line. Empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// If the file cannot be read, or a line is not a key.
pub fn read_public_keys(file: &Path) -> Result<Vec<PublicKey>, KeyError> {
    let text = fs::read_to_string(file).map_err(|error| key_error(file, error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.parse().map_err(|problem| key_error(file, problem))).collect()
}

/// A node's signing key and the public keys it trusts.
#[derive(Debug, Clone)]
pub struct Keyring(Source);

#[derive(Debug, Clone)]
enum Source {
    File { private: PathBuf, trusted: Option<PathBuf> },
    Memory(Arc<Ed25519KeyPair>),
}

impl Keyring {
    /// Keys in files. `private` is created on first use; `trusted` has the public keys of other nodes.
    pub fn at(private: impl Into<PathBuf>, trusted: Option<PathBuf>) -> Self {
        Self(Source::File { private: private.into(), trusted })
    }

    /// A key that lives as long as the process: for tests, and where nothing is verified later.
    ///
    /// # Panics
    /// If the system has no randomness.
    pub fn ephemeral() -> Self {
        let pair = pair(&seed().expect("the system has randomness")).expect("any 32 bytes are a seed");
        Self(Source::Memory(Arc::new(pair)))
    }

    /// Signs with the current key, which is created if there is none yet.
    ///
    /// # Errors
    /// If the key cannot be created or read, or other users can read it.
    pub fn sign(&self, bytes: &[u8]) -> Result<(PublicKey, Vec<u8>), KeyError> {
        let pair = self.pair()?;
        Ok((public(&pair), pair.sign(bytes).as_ref().to_vec()))
    }

    /// The trusted public keys: every key this node ever had, and those of the file of trusted keys.
    ///
    /// # Errors
    /// If a file exists and cannot be read.
    pub fn trusted(&self) -> Result<Vec<PublicKey>, KeyError> {
        match &self.0 {
            Source::Memory(pair) => Ok(vec![public(pair)]),
            Source::File { private, trusted } => {
                let own = public_file(private);
                let mut keys = if own.exists() { read_public_keys(&own)? } else { Vec::new() };
                if let Some(file) = trusted {
                    keys.extend(read_public_keys(file)?);
                }
                Ok(keys)
            }
        }
    }

    /// Creates a new signing key. Signatures of older keys stay valid.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn rotate(&self) -> Result<PublicKey, KeyError> {
        let Source::File { private, .. } = &self.0 else {
            return Err(KeyError {
                file: "(memory)".to_owned(),
                problem: "an in-memory key cannot be rotated".to_owned(),
            });
        };
        let seed = seed().map_err(|error| key_error(private, error.to_string()))?;
        let public = public(&pair(&seed).map_err(|problem| key_error(private, problem))?);
        // Trusted before it is used: no signature may exist before the key that verifies it.
        write_public(private, &public).map_err(|error| key_error(private, error.to_string()))?;
        let new = temporary(private);
        write_private(&new, &seed)
            .and_then(|()| fs::rename(&new, private))
            .map_err(|error| key_error(private, error.to_string()))?;
        Ok(public)
    }

    fn pair(&self) -> Result<Arc<Ed25519KeyPair>, KeyError> {
        let file = match &self.0 {
            Source::Memory(pair) => return Ok(Arc::clone(pair)),
            Source::File { private, .. } => private,
        };
        if !file.exists() {
            self.make(file)?;
        }
        let seen = fs::metadata(file).map_err(|error| key_error(file, error.to_string()))?;
        if seen.mode() & 0o077 != 0 {
            let problem = format!(
                "other users can read it (mode {:o}): run chmod 600 and rotate the key",
                seen.mode() & 0o777
            );
            return Err(key_error(file, problem));
        }
        let text = fs::read_to_string(file).map_err(|error| key_error(file, error.to_string()))?;
        let seed = text.trim().strip_prefix(PRIVATE).and_then(unhex);
        let seed = seed.ok_or_else(|| {
            key_error(file, "not a private key: restore it, or remove it and rotate the key".to_owned())
        })?;
        pair(&seed).map(Arc::new).map_err(|problem| key_error(file, problem))
    }

    /// Creates the first key. Two processes that race here end up with the same one.
    fn make(&self, file: &Path) -> Result<(), KeyError> {
        let made = || -> io::Result<()> {
            if let Some(parent) = file.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                fs::create_dir_all(parent)?;
            }
            let (seed, new) = (seed()?, temporary(file));
            write_private(&new, &seed)?;
            let public = public(&pair(&seed).map_err(io::Error::other)?);
            write_public(file, &public)?;
            let linked = fs::hard_link(&new, file);
            fs::remove_file(&new)?;
            match linked {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
        };
        made().map_err(|error| {
            key_error(file, format!("cannot be created ({error}); set merge.key_file to a writable path"))
        })
    }
}

/// Path of the file of public keys that belongs to a private key: the same name with `.pub`.
pub fn public_file(private: &Path) -> PathBuf {
    let mut name = private.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

fn temporary(file: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}-{number}", std::process::id()));
    name.into()
}

fn write_private(file: &Path, seed: &[u8]) -> io::Result<()> {
    // A killed process may have left a file of this name.
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(out, "{PRIVATE}{}", hex(seed))?;
    out.sync_all()
}

fn write_public(private: &Path, key: &PublicKey) -> io::Result<()> {
    let mut out = OpenOptions::new().append(true).create(true).mode(0o644).open(public_file(private))?;
    out.write_all(format!("{key}\n").as_bytes())?;
    out.sync_all()
}

fn seed() -> io::Result<[u8; SEED_BYTES]> {
    let mut seed = [0; SEED_BYTES];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    Ok(seed)
}

fn pair(seed: &[u8]) -> Result<Ed25519KeyPair, String> {
    Ed25519KeyPair::from_seed_unchecked(seed).map_err(|error| error.to_string())
}

fn public(pair: &Ed25519KeyPair) -> PublicKey {
    let bytes = pair.public_key().as_ref();
    PublicKey(bytes.try_into().expect("an Ed25519 key has 32 bytes"))
}

fn key_error(file: &Path, problem: String) -> KeyError {
    KeyError { file: file.display().to_string(), problem }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weaver-keys-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn a_key_is_created_once_with_mode_0600_and_signatures_of_older_keys_stay_valid() {
        let place = place("rotate");
        let keyring = Keyring::at(place.join("merge.key"), None);
        let (first, signature) = keyring.sign(b"x").unwrap();
        assert_eq!(keyring.sign(b"y").unwrap().0, first, "the key is kept");
        assert_eq!(fs::metadata(place.join("merge.key")).unwrap().mode() & 0o777, 0o600);
        let second = keyring.rotate().unwrap();
        assert_eq!(keyring.sign(b"x").unwrap().0, second);
        assert_eq!(keyring.trusted().unwrap(), [first.clone(), second]);
        assert!(first.verifies(b"x", &signature) && !first.verifies(b"y", &signature));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 2, "no temporary file is left");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_key_that_other_users_can_read_is_refused_with_a_remedy() {
        let place = place("mode");
        let keyring = Keyring::at(place.join("merge.key"), None);
        keyring.sign(b"x").unwrap();
        fs::set_permissions(place.join("merge.key"), fs::Permissions::from_mode(0o640)).unwrap();
        let refused = keyring.sign(b"x").unwrap_err().to_string();
        assert!(refused.contains("other users can read it") && refused.contains("rotate"), "{refused}");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn text_that_is_not_a_public_key_is_refused() {
        for text in ["", "ed25519:", "ed25519:zz", &format!("ed25519:{}", "0".repeat(63)), "rsa:00"] {
            assert!(text.parse::<PublicKey>().is_err(), "{text}");
        }
    }
}
