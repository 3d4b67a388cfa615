//! Who asks: the token that a server is shown.

use crate::config::{Config, keys};
use crate::exit::Failure;

/// The token for the server at this address, if there is one.
pub(crate) fn token_for(_address: &str, config: &Config) -> Result<Option<String>, Failure> {
    let set = config.text(keys::TOKEN);
    Ok((!set.is_empty()).then(|| set.to_owned()))
}
